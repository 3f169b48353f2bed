//! The line protocol of InfluxDB, after
//! <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>: a message is a line.
//!
//! ```text
//! weather,place=sea\ side temperature=82.5,wet=true,rain=3i,by="a \"b\"" 1465839830100400200
//! ```
//! ```json
//! {"measurement":"weather","tags":{"place":"sea side"},
//!  "fields":{"temperature":82.5,"wet":true,"rain":3,"by":"a \"b\""},
//!  "timestamp":1465839830100400200}
//! ```
//!
//! | key | value |
//! |---|---|
//! | `measurement` | text, not empty |
//! | `tags` | an object of text, empty where there are none; may be left out to encode |
//! | `fields` | an object of numbers, truth values and text, not empty |
//! | `timestamp` | ns since the Unix epoch; left out where the line has none |
//!
//! To encode, a tag may also be a number or a truth value, which become text, and a tag or field
//! that is `null` is left out. Text that the protocol has no escape for is bad data: line feeds
//! outside of the text of a field, a backslash at the end of a name or tag, a measurement that
//! starts with `#`.
//!
//! What does not come back as it was: an unsigned integer below 2⁶³ is written as a signed one
//! (`1u` becomes `1i`), since most servers know no others; a tag or field that occurs twice is the
//! last of them; spaces beyond one.

#![allow(clippy::doc_markdown)] // InfluxDB is a name, not code

mod decode;
mod encode;

pub(super) use self::{decode::decode, encode::encode};
use super::copied::without_signature;

/// Returns whether a message is a blank line or a comment.
pub(super) fn is_blank(message: &[u8]) -> bool {
    matches!(without_signature(message).trim_ascii_start().first(), None | Some(b'#'))
}

#[cfg(test)]
mod tests;
