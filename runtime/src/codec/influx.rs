//! The InfluxDB line protocol, according to <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>.
//! A message is a line.
//!
//! ```text
//! weather,site=sea\ side temperature=82.5,wet=true,rain=3i,by="a \"b\"" 1465839830100400200
//! ```
//! ```json
//! {"measurement":"weather","tags":{"site":"sea side"},
//!  "fields":{"temperature":82.5,"wet":true,"rain":3,"by":"a \"b\""},
//!  "timestamp":1465839830100400200}
//! ```
//!
//! | key | value |
//! |---|---|
//! | `measurement` | text, not empty |
//! | `tags` | an object of text, empty if there are none; optional for encoding |
//! | `fields` | an object of numbers, truth values and text, not empty |
//! | `timestamp` | ns since the Unix epoch; absent if the line has none |
//!
//! For encoding, a tag may also be a number or a truth value, which becomes text. A tag or field that is `null` is
//! omitted. Text that the protocol cannot escape is bad data: line feeds outside of the text of a field, a backslash at
//! the end of a name or tag, and a measurement that starts with `#` or a byte order mark.
//!
//! Some data changes in a round trip. An unsigned integer below 2⁶³ is written as a signed one (`1u` becomes `1i`),
//! because most servers support only signed integers. If a tag or field occurs twice, only the last one remains.
//! Repeated spaces are reduced to one.

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
