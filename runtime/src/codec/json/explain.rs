//! Error messages for JSON text that cannot be parsed, with the position of the error.

use simd_json::ErrorType;

use super::numbers;
use crate::codec::Error;

/// Returns the error for `message`, which must be the original text, in which no escapes were replaced.
pub(super) fn error(error: &simd_json::Error, message: &[u8], max_depth: usize) -> Error {
    let at = error.index().min(message.len());
    if message.iter().all(u8::is_ascii_whitespace) {
        let what = if message.is_empty() { "empty message" } else { "blank message" };
        return Error::bad_data_at(0, format!("{what}, expected a JSON value"));
    }
    if let Err(error) = std::str::from_utf8(message) {
        return Error::bad_data_at(error.valid_up_to(), "invalid UTF-8");
    }
    match error.error() {
        ErrorType::DepthLimitExceeded => {
            Error::bad_data_at(at, format!("nested deeper than {max_depth} levels"))
        }
        ErrorType::InvalidNumber => numbers::invalid(message, at),
        ErrorType::InvalidEscape
        | ErrorType::InvalidUnicodeCodepoint
        | ErrorType::InvalidUnicodeEscape
        | ErrorType::InvalidUtf8 => {
            Error::bad_data_at(bad_escape(message).unwrap_or(at), "invalid escape in a string")
        }
        ErrorType::Syntax | ErrorType::Eof => string(message).unwrap_or_else(|| end(message)),
        _ if at == message.len() => end(message),
        other => unexpected(other, message, at),
    }
}

fn end(message: &[u8]) -> Error {
    Error::bad_data_at(message.len(), "the message ends within a value")
}

fn unexpected(error: &ErrorType, message: &[u8], at: usize) -> Error {
    let expected = match error {
        ErrorType::ExpectedArrayContent => "expected `,` or `]`",
        ErrorType::ExpectedObjectContent => "expected `,`, `}` or a key",
        ErrorType::ExpectedObjectKey => "expected a key",
        ErrorType::ExpectedObjectColon => "expected `:`",
        // Text that begins with `n`, `t` or `f`.
        ErrorType::ExpectedNull | ErrorType::ExpectedTrue | ErrorType::ExpectedFalse => {
            return no_value(message, at);
        }
        _ => return judged(message).unwrap_or_else(|| end(message)),
    };
    Error::bad_data_at(at, format!("{expected}, found {}", found(message, at)))
}

/// Returns a description of the byte at `at`.
fn found(message: &[u8], at: usize) -> String {
    match message.get(at) {
        Some(byte) if byte.is_ascii_graphic() => format!("`{}`", char::from(*byte)),
        Some(byte) => format!("byte 0x{byte:02x}"),
        None => "the end".to_owned(),
    }
}

/// Maximum number of bytes of a word in an error.
const WORD: usize = 16;

/// Returns the error for text at `at` with which no value begins, such as a word without quotation marks.
fn no_value(message: &[u8], at: usize) -> Error {
    let (before, rest) = message.split_at(at.min(message.len()));
    let letters = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let word = std::str::from_utf8(&rest[..letters.min(WORD)]).unwrap_or_default();
    let shown = match letters {
        0 => found(message, at),
        1..=WORD => format!("`{word}`"),
        _ => format!("`{word}…`"),
    };
    let error = Error::bad_data_at(at, format!("expected a JSON value, found {shown}"));
    if ["true", "false", "null", "none"].iter().any(|known| word.eq_ignore_ascii_case(known)) {
        error.with_remedy(LITERALS)
    } else if letters > 0 && before.trim_ascii().is_empty() {
        error.with_remedy(NO_JSON)
    } else {
        error
    }
}

const LITERALS: &str = "JSON writes `true`, `false` and `null` in lower case";
const NO_JSON: &str =
    "the message is not JSON: set the `codec` of its format, such as `string` for text";

/// Returns the error that a slower parser reports. Used if the error of the fast parser has no position.
fn judged(message: &[u8]) -> Option<Error> {
    let error = serde_json::from_slice::<serde::de::IgnoredAny>(message).err()?;
    let lines = message.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let at = (before + error.column().saturating_sub(1)).min(message.len());
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    if what == VALUE || what == WORD_OF_VALUE {
        let word = message[..at].iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
        return Some(no_value(message, at - word));
    }
    let error = Error::bad_data_at(at, what);
    let blanks = message[..at].len() - message[..at].trim_ascii_end().len();
    if what == TRAILING && message[at - blanks..at].contains(&b'\n') {
        return Some(error.with_remedy(SEVERAL_LINES));
    }
    Some(error)
}

/// Error text of the slower parser if the message contains a second value.
const TRAILING: &str = "trailing characters";
/// Error text of the slower parser if no value begins at the position.
const VALUE: &str = "expected value";
/// Error text of the slower parser if a word begins like `true`, `false` or `null`. The position is within the word.
const WORD_OF_VALUE: &str = "expected ident";
const SEVERAL_LINES: &str = "the message has several lines: if each is a message, add `lines` to \
    `preprocessors`";

/// Returns the error for a string that contains a control character or has no end, if there is one.
fn string(message: &[u8]) -> Option<Error> {
    let mut start = None;
    let mut at = 0;
    while let Some(byte) = message.get(at) {
        match (byte, start) {
            (b'"', None) => start = Some(at),
            (b'"', Some(_)) => start = None,
            (b'\\', Some(_)) => at += 1,
            (0..0x20, Some(_)) => {
                let what = format!("unescaped control character 0x{byte:02x} in a string");
                return Some(Error::bad_data_at(at, what));
            }
            _ => {}
        }
        at += 1;
    }
    start.map(|start| Error::bad_data_at(start, "unterminated string"))
}

/// Returns the position of the first escape that JSON does not define, or that is only one half of a surrogate pair.
fn bad_escape(message: &[u8]) -> Option<usize> {
    let unit = |at: usize| {
        let digits = message.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digits = std::str::from_utf8(digits).ok()?;
        if digits.starts_with('+') { None } else { u32::from_str_radix(digits, 16).ok() }
    };
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', message.get(at..)?) {
        at += next;
        at += match message.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match (unit(at), unit(at + 6)) {
                (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
                (None | Some(0xd800..0xe000), _) => return Some(at),
                _ => 6,
            },
            _ => return Some(at),
        };
    }
    None
}
