//! Comma-separated values, after [RFC 4180](https://www.rfc-editor.org/rfc/rfc4180): a message is a
//! record.
//!
//! Without `headers` a record is an array of text; with them it is an object, and has to have as
//! many fields as there are names. The names stand in the configuration: a first line with names is
//! an event like any other, and a filter can drop it.
//!
//! | option | |
//! |---|---|
//! | `delimiter` | what stands between two fields, one ASCII character; `,` |
//! | `quote` | what stands around fields, one ASCII character, or `null` for nothing; `"` |
//! | `headers` | the names of the fields, in order; none |
//! | `numbers` | whether fields without quotes that look like JSON numbers are numbers; `false` |
//!
//! A field in quotes may have anything in it, and a quote twice. Line feeds among it take a
//! preprocessor other than `lines`, which would cut the record there.
//!
//! To encode, numbers and truth values are written as JSON writes them, `null` and missing names
//! as nothing, and fields are quoted where they have to be. Arrays and objects within a record,
//! names that are not among the headers, and binary data are bad data.
//!
//! What does not come back as it was: `null` and missing names become empty text; truth values
//! become text; so do numbers, unless `numbers` is set. Then text that looks like a number is
//! quoted, and stays text.

mod decode;
mod encode;
mod options;

pub(super) use self::{decode::decode, encode::encode};
pub use options::Options;

use super::copied::without_signature;

/// Returns whether a message is an empty line, with or without its end.
pub(super) fn is_blank(message: &[u8]) -> bool {
    matches!(without_signature(message), b"" | b"\n" | b"\r\n" | b"\r")
}

/// Whether text is a number as JSON writes them.
fn is_number(text: &str) -> bool {
    fn digits(text: &[u8]) -> &[u8] {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        &text[count..]
    }
    let bytes = text.as_bytes();
    let rest = match bytes.strip_prefix(b"-").unwrap_or(bytes) {
        [b'0', rest @ ..] => rest,
        [b'1'..=b'9', rest @ ..] => digits(rest),
        _ => return false,
    };
    let rest = match rest {
        [b'.', b'0'..=b'9', rest @ ..] => digits(rest),
        rest => rest,
    };
    match rest {
        [] | [b'e' | b'E', b'0'..=b'9'] => true,
        [b'e' | b'E', b'+' | b'-', b'0'..=b'9', rest @ ..]
        | [b'e' | b'E', b'0'..=b'9', rest @ ..] => digits(rest).is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
