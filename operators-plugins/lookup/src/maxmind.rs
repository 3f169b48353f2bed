//! Databases of MaxMind: records of IP networks in a binary format.

use std::{fmt, fs::File, io::Read, net::IpAddr};

use maxminddb::{LookupResult, PathElement, Reader};
use tremor_pdk::{
    Error, Memory, Result,
    serde::{
        Deserialize, Deserializer,
        de::{self, MapAccess, SeqAccess, Visitor},
    },
};

use crate::{
    config::TableConfig,
    record::{
        Limited, put_bool, put_bytes, put_data, put_null, put_number_text, put_text, start_array,
        start_object, write_value,
    },
};

/// Memory for a node of the search tree while a database is verified, in bytes.
const MEMORY_OF_NODE: usize = 24;

/// A database in memory.
pub(crate) struct Database {
    reader: Reader<Vec<u8>>,
    /// The chosen fields; `None` if the whole record is written.
    fields: Option<Fields>,
    /// Memory of the database, which is counted until the database is dropped.
    memory: Memory,
}

/// A record of a database.
pub(crate) struct Record<'d> {
    found: LookupResult<'d, Vec<u8>>,
    fields: Option<&'d Fields>,
}

/// The chosen fields of records.
struct Fields {
    /// Keys of the path of each field.
    paths: Vec<Vec<String>>,
    tree: Vec<Branch>,
}

/// A key of an object that is written.
struct Branch {
    key: String,
    /// Position in [`Fields::paths`] of the value, or `None` for an object with the keys of `below`.
    path: Option<usize>,
    below: Vec<Branch>,
}

impl Fields {
    /// Compiles paths such as `country.iso_code`.
    fn new(fields: &[String]) -> Result<Self> {
        let mut paths: Vec<Vec<String>> = Vec::new();
        let mut tree = Vec::new();
        for field in fields {
            let path: Vec<_> = field.split('.').map(str::to_owned).collect();
            if path.iter().any(String::is_empty) {
                return Err(Error::configuration(format_args!(
                    "invalid `fields`: `{field}` is not a path such as `country.iso_code`"
                )));
            }
            let is_part = |other: &Vec<String>| path.starts_with(other) || other.starts_with(&path);
            if let Some(other) = paths.iter().find(|other| is_part(other)) {
                return Err(Error::configuration(format_args!(
                    "invalid `fields`: `{field}` and `{}` contain each other; remove one of them",
                    other.join(".")
                )));
            }
            add(&mut tree, &path, paths.len());
            paths.push(path);
        }
        Ok(Self { paths, tree })
    }
}

fn add(tree: &mut Vec<Branch>, path: &[String], number: usize) {
    let Some((key, below)) = path.split_first() else { return };
    let at = tree.iter().position(|branch| branch.key == *key).unwrap_or_else(|| {
        tree.push(Branch { key: key.clone(), path: None, below: Vec::new() });
        tree.len() - 1
    });
    if below.is_empty() {
        tree[at].path = Some(number);
    } else {
        add(&mut tree[at].below, below, number);
    }
}

impl Database {
    /// Reads and verifies a database.
    ///
    /// # Errors
    /// The file is not a valid database, or takes too much memory.
    pub(crate) fn load(file: &File, config: &TableConfig, mut memory: Memory) -> Result<Self> {
        let len = file.metadata().map_err(Error::configuration)?.len();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > config.max_memory {
            return Err(Error::configuration(format_args!(
                "the database takes {len} bytes, and `max_memory` is {} bytes: set a larger one",
                config.max_memory
            )));
        }
        count(&mut memory, len)?;
        let mut data = Vec::with_capacity(len);
        // A file that grows is read again later.
        file.take(len as u64).read_to_end(&mut data).map_err(Error::configuration)?;
        let reader = Reader::from_source(data).map_err(|error| invalid(&error))?;
        // The nodes of the search tree are at the beginning of the file.
        let nodes = (reader.metadata().node_count as usize).min(len / 6);
        count(&mut memory, len.saturating_add(nodes.saturating_mul(MEMORY_OF_NODE)))?;
        reader.verify().map_err(|error| invalid(&error))?;
        count(&mut memory, len)?;
        let fields = config.fields.as_deref().map(Fields::new).transpose()?;
        Ok(Self { reader, fields, memory })
    }

    /// Returns the record of the network that contains an address. Returns `None` if the text is not an address, or no
    /// network contains it.
    pub(crate) fn find(&self, key: &str) -> Option<Record<'_>> {
        let address = key.parse::<IpAddr>().ok()?.to_canonical();
        // The error means that the database has no IPv6 addresses.
        let found = self.reader.lookup(address).ok()?;
        found.has_data().then_some(Record { found, fields: self.fields.as_ref() })
    }

    /// Returns the memory of the database in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.used()
    }
}

fn invalid(error: &maxminddb::MaxMindDbError) -> Error {
    Error::configuration(format_args!("not a valid database of MaxMind: {error}"))
}

fn count(memory: &mut Memory, bytes: usize) -> Result<()> {
    if memory.try_resize(bytes) {
        return Ok(());
    }
    Err(Error::shortage(format_args!(
        "the database takes {bytes} bytes, which exceeds the memory limit of the program: increase `--memory-limit`"
    )))
}

impl Record<'_> {
    /// Writes the record, or an object with its chosen fields.
    ///
    /// # Errors
    /// The record cannot be decoded.
    pub(crate) fn write(&self, out: &mut Limited<'_, '_>) -> Result<()> {
        let failed = |error| {
            Error::bad_data(format_args!("cannot read the record of the database: {error}"))
        };
        let Some(fields) = self.fields else {
            if let Some(record) = self.found.decode::<Compact>().map_err(failed)? {
                write_value(&mut &*record.0, out);
            }
            return Ok(());
        };
        let mut values = Vec::with_capacity(fields.paths.len());
        for path in &fields.paths {
            let path: Vec<_> = path.iter().map(|key| PathElement::Key(key)).collect();
            // The error of a value on the path that is not an object is that of a missing field.
            values.push(match self.found.decode_path::<Compact>(&path) {
                Ok(value) => value,
                Err(maxminddb::MaxMindDbError::Decoding { .. }) => None,
                Err(error) => return Err(failed(error)),
            });
        }
        write_tree(&fields.tree, &values, out);
        Ok(())
    }
}

/// Writes an object with the values that exist.
fn write_tree(tree: &[Branch], values: &[Option<Compact>], out: &mut Limited<'_, '_>) {
    out.begin_object();
    for branch in tree {
        match branch.path.map(|path| values.get(path)) {
            Some(Some(Some(value))) => {
                out.key(&branch.key);
                write_value(&mut &*value.0, out);
            }
            None if has_value(&branch.below, values) => {
                out.key(&branch.key);
                write_tree(&branch.below, values, out);
            }
            Some(_) | None => {}
        }
    }
    out.end_object();
}

fn has_value(tree: &[Branch], values: &[Option<Compact>]) -> bool {
    tree.iter().any(|branch| match branch.path {
        Some(path) => values.get(path).is_some_and(Option::is_some),
        None => has_value(&branch.below, values),
    })
}

/// A value in the compact form of tables.
struct Compact(Vec<u8>);

impl<'de> Deserialize<'de> for Compact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(CompactVisitor)
    }
}

struct CompactVisitor;

fn compact(put: impl FnOnce(&mut Vec<u8>)) -> Compact {
    let mut out = Vec::new();
    put(&mut out);
    Compact(out)
}

fn number(number: impl fmt::Display) -> Compact {
    compact(|out| put_number_text(&number.to_string(), out))
}

impl<'de> Visitor<'de> for CompactVisitor {
    type Value = Compact;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a database of MaxMind")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<Compact, E> {
        Ok(compact(|out| put_bool(value, out)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<Compact, E> {
        Ok(number(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<Compact, E> {
        Ok(number(value))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> std::result::Result<Compact, E> {
        Ok(number(value))
    }

    fn visit_f32<E: de::Error>(self, value: f32) -> std::result::Result<Compact, E> {
        // The shortest text, which has fewer digits than that of the same number with 64 bits.
        match serde_json::Number::from_f64(f64::from(value)) {
            Some(_) => Ok(number(format_args!("{value:?}"))),
            None => Ok(compact(put_null)),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Compact, E> {
        match serde_json::Number::from_f64(value) {
            Some(value) => Ok(number(value)),
            None => Ok(compact(put_null)),
        }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<Compact, E> {
        Ok(compact(|out| put_text(value, out)))
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> std::result::Result<Compact, E> {
        Ok(compact(|out| put_data(value, out)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> std::result::Result<Compact, A::Error> {
        let (mut count, mut elements) = (0, Vec::new());
        while let Some(Compact(element)) = array.next_element()? {
            elements.extend_from_slice(&element);
            count += 1;
        }
        Ok(compact(|out| {
            start_array(count, out);
            out.extend_from_slice(&elements);
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Compact, A::Error> {
        let (mut count, mut pairs) = (0_usize, Vec::new());
        while let Some((key, Compact(value))) = map.next_entry::<String, _>()? {
            put_bytes(key.as_bytes(), &mut pairs);
            pairs.extend_from_slice(&value);
            count += 1;
        }
        Ok(compact(|out| {
            start_object(count, out);
            out.extend_from_slice(&pairs);
        }))
    }
}

#[cfg(test)]
mod tests;
