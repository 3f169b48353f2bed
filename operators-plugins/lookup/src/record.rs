//! The compact form of values in the memory of a table.

use std::fmt;

use serde_json::value::RawValue;
use tremor_pdk::{
    Exact, Writer,
    serde::{
        Deserialize, Deserializer,
        de::{MapAccess, Visitor},
    },
};

/// Maximum depth of nested arrays and objects in a value of a table.
const MAX_DEPTH: usize = 32;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const TEXT: u8 = 3;
const NUMBER: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// The fields of a JSON object in their order, with the texts of their values.
pub(crate) struct Fields<'t>(pub(crate) Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// Appends a number of 7 bits a byte.
pub(crate) fn put_number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    out.push(low_bits(number));
}

fn low_bits(number: usize) -> u8 {
    u8::try_from(number & 0x7f).unwrap_or_default()
}

/// Appends bytes with their length.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a text as a value.
pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    out.push(TEXT);
    put_bytes(text.as_bytes(), out);
}

/// Appends a value of JSON. `depth` is the number of arrays and objects that contain the value.
///
/// # Errors
/// Returns a description of the mistake.
pub(crate) fn put_json(json: &str, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("more than {MAX_DEPTH} nested arrays and objects"));
    }
    fn read<'t, T: Deserialize<'t>>(json: &'t str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }
    match json.as_bytes().first() {
        Some(b'n') => out.push(NULL),
        Some(b'f') => out.push(FALSE),
        Some(b't') => out.push(TRUE),
        Some(b'"') => put_text(&read::<String>(json)?, out),
        Some(b'[') => {
            let values: Vec<&RawValue> = read(json)?;
            out.push(ARRAY);
            put_number(values.len(), out);
            for value in values {
                put_json(value.get(), depth + 1, out)?;
            }
        }
        Some(b'{') => {
            let Fields(fields) = read(json)?;
            out.push(OBJECT);
            put_number(fields.len(), out);
            for (name, value) in fields {
                put_bytes(name.as_bytes(), out);
                put_json(value.get(), depth + 1, out)?;
            }
        }
        _ => {
            out.push(NUMBER);
            put_bytes(json.as_bytes(), out);
        }
    }
    Ok(())
}

/// Takes a number from the beginning of `bytes`.
pub(crate) fn take_number(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 56 {
            break;
        }
    }
    number
}

/// Takes bytes and their length from the beginning of `bytes`.
pub(crate) fn take_bytes<'t>(bytes: &mut &'t [u8]) -> &'t [u8] {
    let len = take_number(bytes);
    let (taken, rest) = bytes.split_at_checked(len).unwrap_or_default();
    *bytes = rest;
    taken
}

/// Takes text and its length from the beginning of `bytes`.
fn take_text<'t>(bytes: &mut &'t [u8]) -> &'t str {
    std::str::from_utf8(take_bytes(bytes)).unwrap_or_default()
}

/// Takes a value from the beginning of `bytes`, and writes it.
pub(crate) fn write_value(bytes: &mut &[u8], out: &mut Writer<'_>) {
    let Some((&tag, rest)) = bytes.split_first() else { return };
    *bytes = rest;
    match tag {
        FALSE | TRUE => out.bool(tag == TRUE),
        TEXT => out.str(take_text(bytes)),
        NUMBER => match Exact::new(take_text(bytes)) {
            Some(number) => out.exact(&number),
            None => out.null(),
        },
        ARRAY => {
            out.begin_array();
            for _ in 0..take_number(bytes) {
                write_value(bytes, out);
            }
            out.end_array();
        }
        OBJECT => {
            out.begin_object();
            for _ in 0..take_number(bytes) {
                out.key(take_text(bytes));
                write_value(bytes, out);
            }
            out.end_object();
        }
        _ => out.null(),
    }
}
