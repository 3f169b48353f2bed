//! Encoding of lines.

use std::io::Write;

use tremor_abi::document::{MAX_DEPTH, Shape, ValueRef, is_json_number};

use super::{Options, is_of_key};
use crate::codec::{Error, buffer::Bytes, copied::signature_of, flattened::Keys, raw};

/// Appends the line of a value. After an error, the caller has to discard the appended bytes.
pub(in crate::codec) fn encode(
    options: Options,
    value: ValueRef<'_>,
    out: &mut Bytes,
) -> Result<(), Error> {
    let Shape::Object(object) = value.shape() else {
        return Err(Error::expected("an object", value.shape()));
    };
    // The keys of an object differ, so only those of nested ones can occur twice.
    let is_nested =
        |value: ValueRef<'_>| matches!(value.shape(), Shape::Object(_) | Shape::Array(_));
    let keys = object.iter().any(|(_, value)| is_nested(value)).then(Keys::default);
    let mut line = Line { options, start: out.len(), out, prefix: String::new(), keys };
    object.into_iter().try_for_each(|(key, value)| line.pair(key, value, MAX_DEPTH))?;
    let Line { out, keys, .. } = line;
    keys.map_or(Ok(()), |mut keys| keys.check(out))
}

struct Line<'o> {
    options: Options,
    /// Length of `out` before the line.
    start: usize,
    out: &'o mut Bytes,
    /// Keys of the containers around the current pair, each followed by a point.
    prefix: String,
    /// Keys of the line, if one of them can occur twice.
    keys: Option<Keys>,
}

impl Line<'_> {
    fn pair(&mut self, key: &str, value: ValueRef<'_>, depth: usize) -> Result<(), Error> {
        let inside = self.prefix.len();
        match value.shape() {
            Shape::Object(object) if depth > 0 => {
                self.enter(key);
                for (key, value) in object {
                    self.pair(key, value, depth - 1)?;
                }
            }
            Shape::Array(array) if depth > 0 => {
                self.enter(key);
                let mut index = itoa::Buffer::new();
                for (position, value) in array.into_iter().enumerate() {
                    self.pair(index.format(position), value, depth - 1)?;
                }
            }
            shape => return self.scalar(key, shape),
        }
        self.prefix.truncate(inside);
        Ok(())
    }

    fn enter(&mut self, key: &str) {
        self.prefix.push_str(key);
        self.prefix.push('.');
    }

    fn scalar(&mut self, key: &str, value: Shape<'_>) -> Result<(), Error> {
        let is_first = self.out.len() == self.start;
        if !is_first {
            self.out.push(b' ');
        }
        let is_valid = |key: &str| key.bytes().all(is_of_key);
        if key.is_empty() || !is_valid(key) || !is_valid(&self.prefix) {
            return Err(Error::bad_data(format!(
                "logfmt cannot write the key {:?}: it is empty, or has a space, a control \
                 character, `=` or a quote",
                format!("{}{key}", self.prefix)
            )));
        }
        let start = self.out.len();
        self.out.extend_from_copy_slice(self.prefix.as_bytes());
        self.out.extend_from_copy_slice(key.as_bytes());
        if is_first && signature_of(&self.out[start..]) > 0 {
            return Err(Error::bad_data(format!(
                "logfmt cannot begin a line with the key {:?}: it starts with a byte order mark",
                format!("{}{key}", self.prefix)
            )));
        }
        if let Some(keys) = &mut self.keys {
            keys.add(start..self.out.len());
        }
        self.out.push(b'=');
        match value {
            Shape::String(text) => self.text(text),
            Shape::Null => self.out.extend_from_copy_slice(b"null"),
            scalar if raw::append_scalar(scalar, self.out) => {}
            found => {
                let expected = format_args!("text, a finite number or a truth value as `{key}`");
                return Err(Error::expected(expected, found));
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        let is_plain = |byte: u8| is_of_key(byte) && byte != b'\\';
        let is_typed = self.options.typed
            && (matches!(text, "true" | "false" | "null") || is_json_number(text.as_bytes()));
        if text.bytes().all(is_plain) && !is_typed {
            return self.out.extend_from_copy_slice(text.as_bytes());
        }
        self.out.push(b'"');
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => self.out.extend_from_copy_slice(&[b'\\', byte]),
                b'\n' => self.out.extend_from_copy_slice(b"\\n"),
                b'\r' => self.out.extend_from_copy_slice(b"\\r"),
                b'\t' => self.out.extend_from_copy_slice(b"\\t"),
                // Writing to memory cannot fail.
                _ if byte.is_ascii_control() => drop(write!(self.out, "\\u{byte:04x}")),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }
}
