//! Pairs of keys and values, as many programs write their logs. A message is a line.
//!
//! ```text
//! level=warn msg="disk \"/var\" is nearly full" used=93 fatal
//! ```
//! ```json
//! {"level":"warn","msg":"disk \"/var\" is nearly full","used":"93","fatal":true}
//! ```
//!
//! There is no standard, so the decoder accepts more forms than the encoder writes. Pairs are separated by ASCII white
//! space. A key is everything up to `=` or a space. A value without quotes ends at the next space and may contain any
//! other character. In a value with quotes, the escapes of JSON are replaced, and a backslash before another character
//! stands for itself. A key without a value is `true`. If a key occurs twice, the last value counts.
//!
//! | option | |
//! |---|---|
//! | `typed` | `true` if values without quotes that look like JSON numbers, `true`, `false` and `null` are read as such; default `false` |
//!
//! For encoding, values are written as in JSON, and text is quoted if necessary. The fields of a nested object get keys
//! such as `http.status`, and the elements of an array keys such as `tags.0`. Binary data is bad data, and so are two
//! fields with the same key, and keys that logfmt cannot write: empty keys, keys with white space, control characters,
//! `=` or quotes, and a first key that starts with a byte order mark.
//!
//! Some values change in a round trip: without `typed`, all values become text; nested objects and arrays become fields
//! with longer keys, and are lost if they are empty.

mod decode;
mod encode;

pub(super) use self::{decode::decode, encode::encode};
use super::copied::without_signature;

/// Options of the codec.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `true` if values without quotes that look like JSON numbers, `true`, `false` and `null` are read as such. Unless
    /// set, they are text.
    #[serde(default)]
    pub(super) typed: bool,
}

/// Returns whether a message contains only white space.
pub(super) fn is_blank(message: &[u8]) -> bool {
    without_signature(message).trim_ascii().is_empty()
}

/// Returns whether a byte may be part of a key.
const fn is_of_key(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !byte.is_ascii_control() && byte != b'=' && byte != b'"'
}

#[cfg(test)]
mod tests;
