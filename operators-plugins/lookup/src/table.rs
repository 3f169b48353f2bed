//! The table in memory: rows one after the other in one block of memory, and a hash index of their keys.

use std::{hash::BuildHasher, net::IpAddr};

use hashbrown::{DefaultHashBuilder, HashTable};
use tremor_pdk::{Error, Memory, Network, Result};

use crate::{
    config::By,
    record::{Limited, put_bytes, take_bytes, take_number, write_value},
};

/// Maximum length of a key of a table `by: prefix`, in bytes, which bounds the time of a search.
pub(crate) const MAX_PREFIX: usize = 1024;

/// Maximum length of the key of a network in bytes: the length of the prefix and an IPv6 address.
const MAX_NETWORK_KEY: usize = 17;
/// Memory of a column besides its name, in bytes: its entries in the lists of names.
const NAME: usize = 64;

/// Rows and the index of their keys.
pub(crate) struct Table {
    /// Rows: for each, the key with its length, the number of values, and the values with the numbers of their columns.
    rows: Vec<u8>,
    /// Positions of rows in `rows`.
    index: HashTable<u64>,
    hasher: DefaultHashBuilder,
    /// Names of the columns by their numbers.
    columns: Vec<Box<str>>,
    by: By,
    /// Lengths of the keys `by: cidr` and `by: prefix`, the longest first: in bits for IPv4 and IPv6, or in bytes for
    /// prefixes, which are in the first list.
    lengths: [Vec<u16>; 2],
    duplicates: u64,
    /// Memory of the table, which is counted until the table is dropped.
    memory: Memory,
}

/// The values of a row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'t> {
    table: &'t Table,
    values: &'t [u8],
}

impl Table {
    /// Returns the row that an event with this key gets.
    pub(crate) fn find(&self, key: &str) -> Option<Row<'_>> {
        match self.by {
            By::Exact => self.get(key.as_bytes()),
            By::Cidr => {
                let address = Network::of_address(key.parse::<IpAddr>().ok()?);
                self.lengths[usize::from(address.is_v6())].iter().find_map(|len| {
                    let (key, len) = network_key(address.truncated(u8::try_from(*len).ok()?));
                    self.get(&key[..len])
                })
            }
            By::Prefix => {
                let key = key.as_bytes();
                let lengths = &self.lengths[0];
                let first = lengths.partition_point(|len| usize::from(*len) > key.len());
                lengths[first..].iter().find_map(|len| self.get(&key[..usize::from(*len)]))
            }
        }
    }

    /// Returns the row with exactly this key.
    fn get(&self, key: &[u8]) -> Option<Row<'_>> {
        let hash = self.hasher.hash_one(key);
        let found = self.index.find(hash, |at| key_at(&self.rows, *at).0 == key)?;
        Some(Row { table: self, values: key_at(&self.rows, *found).1 })
    }

    /// Returns the number of different keys.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the number of rows that a later row with the same key has replaced.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the memory of the table in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.used()
    }
}

/// Returns the key of the row at a position, and the remainder of the memory after the key.
fn key_at(rows: &[u8], at: u64) -> (&[u8], &[u8]) {
    let mut row = usize::try_from(at).ok().and_then(|at| rows.get(at..)).unwrap_or_default();
    let key = take_bytes(&mut row);
    (key, row)
}

impl Row<'_> {
    /// Writes an object with the values.
    pub(crate) fn write(self, out: &mut Limited<'_, '_>) {
        let mut values = self.values;
        out.begin_object();
        for _ in 0..take_number(&mut values) {
            let column = take_number(&mut values);
            out.key(self.table.columns.get(column).map(|name| &**name).unwrap_or_default());
            write_value(&mut values, out);
        }
        out.end_object();
    }
}

/// A table that is being filled.
pub(crate) struct Builder {
    table: Table,
    max_memory: usize,
    /// Memory of the names of the columns so far, in bytes.
    names: usize,
    /// For each length of a key, whether the table has such a key: IPv4 and prefixes, and IPv6.
    has_length: [Vec<bool>; 2],
}

impl Builder {
    pub(crate) fn new(by: By, max_memory: usize, memory: Memory) -> Self {
        let table = Table {
            rows: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            columns: Vec::new(),
            by,
            lengths: Default::default(),
            duplicates: 0,
            memory,
        };
        let has_length = [vec![false; MAX_PREFIX + 1], vec![false; 129]];
        Self { table, max_memory, names: 0, has_length }
    }

    /// Adds a row. `values` contains the number of the values, and the values with the numbers of their columns. A row
    /// with the same key is replaced.
    ///
    /// # Errors
    /// The key is invalid, or the table takes too much memory.
    pub(crate) fn add(&mut self, key: &str, values: &[u8]) -> Result<()> {
        let invalid = |expected: &str| {
            Err(Error::configuration(format_args!("invalid key {:?}: {expected}", shortened(key))))
        };
        match self.table.by {
            By::Exact => self.add_key(key.as_bytes(), values),
            By::Cidr => {
                let network = match key.parse::<Network>() {
                    Ok(network) => network,
                    Err(error) => return invalid(error.message()),
                };
                self.has_length[usize::from(network.is_v6())][usize::from(network.prefix_len())] =
                    true;
                let (key, len) = network_key(network);
                self.add_key(&key[..len], values)
            }
            By::Prefix => {
                let Some(has_length) = self.has_length[0].get_mut(key.len()) else {
                    return invalid(&format!("expected at most {MAX_PREFIX} bytes"));
                };
                *has_length = true;
                self.add_key(key.as_bytes(), values)
            }
        }
    }

    /// Counts the name of a column, which the caller keeps until [`Builder::build`].
    ///
    /// # Errors
    /// The table takes too much memory.
    pub(crate) fn count_column(&mut self, name: &str) -> Result<()> {
        self.names += name.len() + NAME;
        self.count(0)
    }

    fn add_key(&mut self, key: &[u8], values: &[u8]) -> Result<()> {
        // The length takes at most 10 bytes.
        let needed = key.len() + values.len() + 10;
        let rows = &self.table.rows;
        if rows.capacity() - rows.len() < needed {
            let more = needed.max(rows.capacity() / 4).max(16 << 10);
            self.count(more)?;
            self.table.rows.reserve_exact(more);
        }
        let index = &self.table.index;
        if index.len() == index.capacity() {
            // The new index has twice the size, and both exist while the entries are moved.
            self.count(index.allocation_size().max(64) * 2)?;
        }
        let Table { rows, index, hasher, duplicates, .. } = &mut self.table;
        let at = rows.len() as u64;
        put_bytes(key, rows);
        rows.extend_from_slice(values);
        let hash = hasher.hash_one(key);
        match index.find_mut(hash, |at| key_at(rows, *at).0 == key) {
            Some(replaced) => {
                *replaced = at;
                *duplicates += 1;
            }
            None => {
                index.insert_unique(hash, at, |at| hasher.hash_one(key_at(rows, *at).0));
            }
        }
        Ok(())
    }

    /// Counts the memory of the table and `more` bytes that will be allocated.
    fn count(&mut self, more: usize) -> Result<()> {
        let rows = self.table.rows.capacity() + self.names;
        let bytes = rows + self.table.index.allocation_size() + more;
        if bytes > self.max_memory {
            return Err(Error::configuration(format_args!(
                "the table takes more than {} bytes, the value of `max_memory`: set a larger one, or fewer `fields`",
                self.max_memory
            )));
        }
        if !self.table.memory.try_resize(bytes) {
            return Err(Error::shortage(format_args!(
                "the table takes {bytes} bytes, which exceeds the memory limit of the program: increase \
                 `--memory-limit`"
            )));
        }
        Ok(())
    }

    /// Returns the filled table.
    ///
    /// # Errors
    /// The table takes too much memory.
    pub(crate) fn build(mut self, columns: Vec<String>) -> Result<Table> {
        self.table.rows.shrink_to_fit();
        self.table.columns = columns.into_iter().map(Into::into).collect();
        self.count(0)?;
        for (lengths, has_length) in self.table.lengths.iter_mut().zip(&self.has_length) {
            let used = has_length.iter().enumerate().rev().filter(|(_, is_used)| **is_used);
            lengths.extend(used.filter_map(|(len, _)| u16::try_from(len).ok()));
        }
        Ok(self.table)
    }
}

/// Returns the key of a network in a table `by: cidr`, and its length: the length of the prefix, and the address.
fn network_key(network: Network) -> ([u8; MAX_NETWORK_KEY], usize) {
    let mut key = [0; MAX_NETWORK_KEY];
    key[0] = network.prefix_len();
    let mut put = |bytes: &[u8]| {
        key[1..=bytes.len()].copy_from_slice(bytes);
        1 + bytes.len()
    };
    let len = match network.address() {
        IpAddr::V4(address) => put(&address.octets()),
        IpAddr::V6(address) => put(&address.octets()),
    };
    (key, len)
}

/// Returns the beginning of a text, for messages.
pub(crate) fn shortened(text: &str) -> &str {
    text.char_indices().nth(64).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;
