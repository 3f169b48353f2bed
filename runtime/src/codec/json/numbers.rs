//! Integers that 64 bits cannot hold.

use std::ops::Range;

use crate::codec::buffer::Bytes;

/// Whether a number of this text is an integer outside of `i64` and `u64`.
pub(super) fn is_big_integer(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let integer = match digits {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let Ok(text) = std::str::from_utf8(number) else { return false };
    integer && text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

/// Where the number ends that starts at `start`, or whatever else is written with its letters.
pub(super) fn end(message: &[u8], start: usize) -> usize {
    let part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    start + message[start..].iter().take_while(|byte| part(byte)).count()
}

/// Appends a copy of the message in which integers that 64 bits cannot hold are written as floats,
/// and gives the copy's length. The message need not be JSON; what is wrong with it stays wrong.
pub(super) fn widen(bytes: &mut Bytes, message: Range<usize>) -> usize {
    let original = bytes[message].to_vec();
    let start = bytes.len();
    let (mut at, mut in_string) = (0, false);
    while let Some(byte) = original.get(at) {
        let end = match byte {
            b'\\' if in_string => (at + 2).min(original.len()),
            b'-' | b'0'..=b'9' if !in_string => end(&original, at),
            b'"' => {
                in_string = !in_string;
                at + 1
            }
            _ => at + 1,
        };
        bytes.extend_from_copy_slice(&original[at..end]);
        if !in_string && is_big_integer(&original[at..end]) {
            bytes.extend_from_copy_slice(b"e0");
        }
        at = end;
    }
    bytes.len() - start
}
