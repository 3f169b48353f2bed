//! What was wrong with a message, in words and with the byte where it starts.

use simd_json::ErrorType;

use crate::codec::Error;

/// Why a message did not become nodes.
pub(super) enum Failure {
    /// The parser refused it.
    Syntax(simd_json::Error),
    /// Something else did.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The error for `message`, which is as it came: nothing unescaped.
#[cold]
pub(super) fn failure(failure: Failure, message: &[u8], max_depth: usize) -> Error {
    let syntax = match failure {
        Failure::Other(error) => return error,
        Failure::Syntax(syntax) => syntax,
    };
    let at = syntax.index().min(message.len());
    if message.iter().all(u8::is_ascii_whitespace) {
        let what = if message.is_empty() { "empty message" } else { "blank message" };
        return Error::bad_data_at(0, format!("{what}: expected a JSON value"));
    }
    if let Err(error) = std::str::from_utf8(message) {
        return Error::bad_data_at(error.valid_up_to(), "invalid UTF-8");
    }
    match syntax.error() {
        ErrorType::DepthLimitExceeded => {
            Error::bad_data_at(at, format!("nested deeper than {max_depth} levels"))
        }
        ErrorType::InvalidNumber => number(message, at),
        ErrorType::InvalidEscape
        | ErrorType::InvalidUnicodeCodepoint
        | ErrorType::InvalidUnicodeEscape
        | ErrorType::InvalidUtf8 => {
            Error::bad_data_at(bad_escape(message).unwrap_or(at), "invalid escape in a string")
        }
        ErrorType::Syntax | ErrorType::Eof => string(message),
        other => unexpected(other, message, at),
    }
}

fn unexpected(error: &ErrorType, message: &[u8], at: usize) -> Error {
    let expected = match error {
        ErrorType::ExpectedArrayContent => "expected `,` or `]`",
        ErrorType::ExpectedObjectContent => "expected `,`, `}` or a key",
        ErrorType::ExpectedObjectKey => "expected a key",
        ErrorType::ExpectedObjectColon => "expected `:`",
        ErrorType::ExpectedNull => "expected `null`",
        ErrorType::ExpectedTrue => "expected `true`",
        ErrorType::ExpectedFalse => "expected `false`",
        ErrorType::TrailingData => "expected nothing behind the value",
        _ => "expected a JSON value",
    };
    let found = match message.get(at) {
        None => "the message ends".to_owned(),
        Some(byte) if byte.is_ascii_graphic() => format!("found `{}`", char::from(*byte)),
        Some(byte) => format!("found byte 0x{byte:02x}"),
    };
    Error::bad_data_at(at, format!("{expected}, {found}"))
}

/// The error for a number that the parser gave up at `at`, which is within or right behind it.
fn number(message: &[u8], at: usize) -> Error {
    let part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let start = at - message[..at].iter().rev().take_while(|byte| part(byte)).count();
    let len = message[start..].iter().take_while(|byte| part(byte)).count();
    let text = String::from_utf8_lossy(&message[start..start + len.min(40)]);
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let what = if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        match text.parse::<f64>() {
            Ok(value) if value.is_infinite() => "is too large for a float",
            _ => "is no JSON number",
        }
    } else if digits.len() > 1 && digits.starts_with('0') || digits.is_empty() {
        "is no JSON number"
    } else if message.get(start + len).is_some_and(|byte| !b" \t\r\n,]}".contains(byte)) {
        "is followed by something else"
    } else {
        "does not fit into 64 bits"
    };
    let more = if len > 40 { "…" } else { "" };
    Error::bad_data_at(start, format!("the number {text}{more} {what}"))
}

/// The error for a string with a control character in it or without an end.
fn string(message: &[u8]) -> Error {
    let mut start = None;
    let mut at = 0;
    while let Some(byte) = message.get(at) {
        match (byte, start) {
            (b'"', None) => start = Some(at),
            (b'"', Some(_)) => start = None,
            (b'\\', Some(_)) => at += 1,
            (0..0x20, Some(_)) => {
                let what = format!("unescaped control character 0x{byte:02x} in a string");
                return Error::bad_data_at(at, what);
            }
            _ => {}
        }
        at += 1;
    }
    match start {
        Some(start) => Error::bad_data_at(start, "string without an end"),
        None => Error::bad_data_at(0, "expected a JSON value"),
    }
}

/// Where the first escape begins that JSON does not know or that stands for half a character.
fn bad_escape(message: &[u8]) -> Option<usize> {
    let unit = |at: usize| -> Option<u32> {
        let digits = message.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
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
