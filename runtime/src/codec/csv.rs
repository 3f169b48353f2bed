//! Comma-separated values, according to [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180). A message is a record.
//!
//! Without `headers`, a record is an array of text. With `headers`, a record is an object, and must have one field for
//! each name. The names are set in the configuration. A first line with names is an event like any other, which a
//! filter can drop.
//!
//! | option | |
//! |---|---|
//! | `delimiter` | separator of the fields, one ASCII character; default `,` |
//! | `quote` | quotation mark of fields, one ASCII character, or `null` for none; default `"` |
//! | `headers` | names of the fields, in order; default none |
//! | `numbers` | `true` if unquoted fields that look like JSON numbers are numbers; default `false` |
//!
//! A quoted field may contain any character; a quotation mark in it is doubled. If fields contain line feeds, use
//! the processors `csv-records` instead of `lines`, which splits the record at them.
//!
//! For encoding, numbers and truth values are written as in JSON, `null` and missing names as empty fields, and fields
//! are quoted if necessary. Nested arrays and objects, names that are not in `headers`, and binary data are bad data.
//!
//! Some values change in a round trip: `null` and missing names become empty text, truth values become text, and
//! numbers become text unless `numbers` is set. If `numbers` is set, text that looks like a number is quoted, so that
//! it stays text.

mod decode;
mod encode;
mod options;

pub(crate) use self::options::{ascii, ascii_or_null, check_separators};
pub(super) use self::{decode::decode, encode::encode};
pub use options::Options;

use super::copied::without_signature;

/// Returns whether a message is an empty line, with or without the end of the line.
pub(super) fn is_blank(message: &[u8]) -> bool {
    matches!(without_signature(message), b"" | b"\n" | b"\r\n" | b"\r")
}

#[cfg(test)]
mod tests;
