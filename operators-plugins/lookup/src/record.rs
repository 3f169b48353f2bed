//! The compact form of values in the memory of a table.

use std::collections::{HashMap, hash_map::Entry};

use tremor_pdk::{
    Error, Exact, Result, Writer,
    serde::{Deserialize, de::IgnoredAny},
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
const BYTES: u8 = 7;

/// White space of JSON.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Returns the fields of a JSON object in their order, with the texts of their values.
///
/// # Errors
/// The text is not of this form.
pub(crate) fn fields(json: &str) -> Result<Vec<(String, &str)>> {
    // Check the whole text first, so that an error has its position in the text.
    serde_json::from_str::<IgnoredAny>(json).map_err(Error::configuration)?;
    match json.trim_start_matches(SPACE).strip_prefix('{') {
        Some(rest) => elements(rest, true),
        None => Err(Error::configuration("found another value")),
    }
}

/// Returns the elements of an array, or the fields of an object, whose text begins after the opening bracket. The names
/// of elements are empty.
fn elements(rest: &str, is_object: bool) -> Result<Vec<(String, &str)>> {
    let close = if is_object { '}' } else { ']' };
    let (mut rest, mut elements) = (rest.trim_start_matches(SPACE), Vec::new());
    if rest.starts_with(close) {
        return Ok(elements);
    }
    loop {
        let mut name = String::new();
        if is_object {
            name = take(&mut rest)?.0;
            rest = rest
                .strip_prefix(':')
                .ok_or_else(|| Error::configuration("expected `:`"))?
                .trim_start_matches(SPACE);
        }
        let (IgnoredAny, value) = take(&mut rest)?;
        elements.push((name, value));
        match rest.strip_prefix(',') {
            Some(next) => rest = next.trim_start_matches(SPACE),
            None if rest.starts_with(close) => {
                if is_object && elements.len() > 1 {
                    keep_last(&mut elements);
                }
                return Ok(elements);
            }
            None => return Err(Error::configuration(format_args!("expected `,` or `{close}`"))),
        }
    }
}

/// Keeps the last value of each name, at the position of the first value, as in events.
fn keep_last(fields: &mut Vec<(String, &str)>) {
    let mut first: HashMap<String, usize> = HashMap::with_capacity(fields.len());
    let mut kept: Vec<(String, &str)> = Vec::with_capacity(fields.len());
    for (name, value) in fields.drain(..) {
        match first.entry(name.clone()) {
            Entry::Occupied(position) => kept[*position.get()].1 = value,
            Entry::Vacant(position) => {
                position.insert(kept.len());
                kept.push((name, value));
            }
        }
    }
    *fields = kept;
}

/// Takes a JSON value from the beginning of `text`, and the white space after the value. Returns the value and its text.
fn take<'t, T: Deserialize<'t>>(text: &mut &'t str) -> Result<(T, &'t str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values
        .next()
        .ok_or_else(|| Error::configuration("expected a value"))?
        .map_err(Error::configuration)?;
    let (json, rest) = text.split_at_checked(values.byte_offset()).unwrap_or_default();
    *text = rest.trim_start_matches(SPACE);
    Ok((value, json))
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

/// Appends binary data as a value.
pub(crate) fn put_data(data: &[u8], out: &mut Vec<u8>) {
    out.push(BYTES);
    put_bytes(data, out);
}

/// Appends `null` as a value.
pub(crate) fn put_null(out: &mut Vec<u8>) {
    out.push(NULL);
}

/// Appends a truth value.
pub(crate) fn put_bool(value: bool, out: &mut Vec<u8>) {
    out.push(if value { TRUE } else { FALSE });
}

/// Appends a number, which is written in JSON, as a value.
pub(crate) fn put_number_text(json: &str, out: &mut Vec<u8>) {
    out.push(NUMBER);
    put_bytes(json.as_bytes(), out);
}

/// Begins an array. The elements follow.
pub(crate) fn start_array(count: usize, out: &mut Vec<u8>) {
    out.push(ARRAY);
    put_number(count, out);
}

/// Begins an object. The pairs follow: keys with their lengths, and values.
pub(crate) fn start_object(count: usize, out: &mut Vec<u8>) {
    out.push(OBJECT);
    put_number(count, out);
}

/// Appends a value of JSON. `depth` is the number of arrays and objects that contain the value.
///
/// # Errors
/// The text is not of this form.
pub(crate) fn put_json(json: &str, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::configuration(format_args!(
            "more than {MAX_DEPTH} nested arrays and objects"
        )));
    }
    match json.as_bytes().first() {
        Some(b'n') => put_null(out),
        Some(b'f') => put_bool(false, out),
        Some(b't') => put_bool(true, out),
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(Error::configuration)?;
            put_text(&text, out);
        }
        Some(open @ (b'[' | b'{')) => {
            let is_object = *open == b'{';
            let elements = elements(&json[1..], is_object)?;
            let start = if is_object { start_object } else { start_array };
            start(elements.len(), out);
            for (name, value) in elements {
                if is_object {
                    put_bytes(name.as_bytes(), out);
                }
                put_json(value, depth + 1, out)?;
            }
        }
        _ => put_number_text(json, out),
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

/// Size of a value or a key in the document of an event, besides its text, in bytes.
const NODE: usize = 16;

/// A writer that writes at most a number of bytes.
pub(crate) struct Limited<'w, 'b> {
    out: &'w mut Writer<'b>,
    /// Bytes of nodes and text that may still be written; `None` if a value did not fit.
    left: Option<usize>,
}

impl<'w, 'b> Limited<'w, 'b> {
    pub(crate) fn new(out: &'w mut Writer<'b>, capacity: usize) -> Self {
        Self { out, left: Some(capacity) }
    }

    /// Returns the bytes that may still be written, or `None` if a value did not fit. Then nothing after this value was
    /// written either.
    pub(crate) fn left(&self) -> Option<usize> {
        self.left
    }

    /// Writes a value or a key with `text` bytes of text, if it fits.
    fn put(&mut self, text: usize, write: impl FnOnce(&mut Writer<'b>)) {
        self.left = self.left.and_then(|left| left.checked_sub(text.saturating_add(NODE)));
        if self.left.is_some() {
            write(self.out);
        }
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.put(key.len(), |out| out.key(key));
    }

    pub(crate) fn begin_object(&mut self) {
        self.put(0, Writer::begin_object);
    }

    pub(crate) fn end_object(&mut self) {
        if self.left.is_some() {
            self.out.end_object();
        }
    }

    fn end_array(&mut self) {
        if self.left.is_some() {
            self.out.end_array();
        }
    }
}

/// Takes a value from the beginning of `bytes`, and writes it.
pub(crate) fn write_value(bytes: &mut &[u8], out: &mut Limited<'_, '_>) {
    let Some((&tag, rest)) = bytes.split_first() else { return };
    *bytes = rest;
    match tag {
        FALSE | TRUE => out.put(0, |out| out.bool(tag == TRUE)),
        TEXT => {
            let text = take_text(bytes);
            out.put(text.len(), |out| out.str(text));
        }
        BYTES => {
            let data = take_bytes(bytes);
            out.put(data.len(), |out| out.bytes(data));
        }
        NUMBER => {
            let text = take_text(bytes);
            out.put(text.len(), |out| match Exact::new(text) {
                Some(number) => out.exact(&number),
                None => out.null(),
            });
        }
        ARRAY => {
            out.put(0, Writer::begin_array);
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
        _ => out.put(0, Writer::null),
    }
}
