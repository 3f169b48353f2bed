//! The preprocessor `json-values`, which splits streams of JSON values and divides arrays into their elements.

use tremor_pdk::{
    Component, ComponentContext, Error, Found, Input, Result, StreamSplitter, units::MessageBytes,
};

use super::max_length;

/// Splits byte streams into JSON values, such as `{"n":1}{"n":2}`, one value in each line, or a JSON text sequence (RFC
/// 7464). Each element of an array becomes a message. A whole message is split too.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Treatment of arrays that are not part of another value.
    #[serde(default)]
    arrays: Arrays,
    /// Maximum length of a value in bytes. Longer values go to `err`. The length of a divided array is not limited.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
}

/// The treatments of arrays that are not part of another value.
#[tremor_pdk::config]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Arrays {
    /// Each element is a message.
    #[default]
    Divide,
    /// The array is a message.
    Keep,
}

/// The preprocessor `json-values`.
pub(crate) struct JsonValues(Config);

impl Component for JsonValues {
    const NAME: &str = "json-values";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self(config))
    }
}

/// Byte that begins each value of a JSON text sequence. It occurs in no JSON text.
const RECORD_SEPARATOR: u8 = 0x1e;

/// State of a stream.
#[derive(Default)]
pub(crate) struct State {
    position: Position,
    /// The value that has begun and whose end was not received.
    open: Option<Open>,
    /// `true` after the first bytes of the stream, which may be a UTF-8 signature.
    has_begun: bool,
    /// `true` if the stream is a JSON text sequence, so that a record separator ends a truncated value.
    is_sequence: bool,
    /// Minimum number of bytes to give up of the next value that is too long. It doubles with each such value that
    /// follows another, so that a stream in which no value ends is not searched again after each of its lines.
    give_up: usize,
}

/// Position in the stream between two values.
#[derive(Clone, Copy, Default, PartialEq)]
enum Position {
    #[default]
    Outside,
    /// After the `[` of a divided array.
    Begin,
    /// After an element of a divided array.
    Element,
    /// After a comma of a divided array.
    Comma,
}

/// State of a value whose end has to be found.
#[derive(Clone, Copy)]
enum Open {
    /// An object or an array, with its brackets. Brackets of the other kind need not be counted.
    Container {
        brackets: [u8; 2],
        depth: usize,
        within: Within,
    },
    Text(Within),
    /// A number, `true`, `false` or `null`.
    Scalar,
    /// Bytes up to the next line, because they do not begin a value. The byte is the first of them.
    Invalid(u8),
}

/// Position relative to the strings of a value.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Nothing,
    String,
    /// After a backslash in a string.
    Escape,
}

/// Result of the search for the end of a value.
enum End {
    Unknown,
    At(usize),
    /// The value is broken, and the next one begins after this number of bytes.
    Broken(usize, &'static str),
}

impl Open {
    const fn new(first: u8) -> Self {
        match first {
            b'{' | b'[' => Self::Container {
                // The closing bracket is two characters after the opening one.
                brackets: [first, first + 2],
                depth: 0,
                within: Within::Nothing,
            },
            b'"' => Self::Text(Within::Nothing),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => Self::Scalar,
            _ => Self::Invalid(first),
        }
    }

    /// Finds the end of the value in `bytes` from the position `at`, before which the value did not end.
    fn end(&mut self, bytes: &[u8], at: usize, is_end: bool) -> End {
        match self {
            Self::Container { brackets, depth, within } => {
                container(*brackets, depth, within, bytes, at)
            }
            Self::Text(within) => {
                let mut at = at;
                if *within == Within::Nothing {
                    (at, *within) = (at + 1, Within::String);
                }
                string(within, bytes, at)
            }
            Self::Scalar => {
                let ends = |byte: &u8| b" \t\r\n,[]{}\"\x1e".contains(byte);
                match bytes[at..].iter().position(ends) {
                    Some(length) => End::At(at + length),
                    None if is_end => End::At(bytes.len()),
                    None => End::Unknown,
                }
            }
            Self::Invalid(_) => {
                match memchr::memchr2(b'\n', RECORD_SEPARATOR, &bytes[at..]) {
                    // The separator belongs to the next value.
                    Some(length) if bytes[at + length] == RECORD_SEPARATOR => {
                        End::Broken(at + length, "")
                    }
                    Some(length) => End::Broken(at + length + 1, ""),
                    None if is_end => End::Broken(bytes.len(), ""),
                    None => End::Unknown,
                }
            }
        }
    }

    /// Finds the end of a value of a JSON text sequence, which is before the next record separator.
    fn end_in_sequence(&mut self, bytes: &[u8], mut at: usize, is_end: bool) -> End {
        // The separator may be much further away than the end, so only a part is searched at a time.
        const WINDOW: usize = 1024;
        loop {
            let window = bytes.len().min(at + WINDOW);
            let separator = memchr::memchr(RECORD_SEPARATOR, &bytes[at..window]);
            let limit = separator.map_or(window, |length| at + length);
            let is_limit = separator.is_some() || is_end && window == bytes.len();
            match self.end(&bytes[..limit], at, is_limit) {
                End::Unknown if separator.is_some() => {
                    return End::Broken(limit, "a record separator before its end");
                }
                End::Unknown if window < bytes.len() => at = window,
                end => return end,
            }
        }
    }
}

/// Finds the end of the string in which `at` is. A string cannot contain a line feed.
fn string(within: &mut Within, bytes: &[u8], mut at: usize) -> End {
    loop {
        if *within == Within::Escape {
            if at >= bytes.len() {
                return End::Unknown;
            }
            (at, *within) = (at + 1, Within::String);
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(length) = memchr::memchr3(b'"', b'\\', b'\n', rest) else { return End::Unknown };
        at += length + 1;
        match rest[length] {
            b'"' => return End::At(at),
            b'\\' => *within = Within::Escape,
            _ => return End::Broken(at, "a line feed in a string"),
        }
    }
}

fn container(
    [open, close]: [u8; 2],
    depth: &mut usize,
    within: &mut Within,
    bytes: &[u8],
    mut at: usize,
) -> End {
    loop {
        if *within != Within::Nothing {
            match string(within, bytes, at) {
                End::At(end) => (at, *within) = (end, Within::Nothing),
                other => return other,
            }
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(length) = memchr::memchr3(b'"', open, close, rest) else { return End::Unknown };
        at += length + 1;
        match rest[length] {
            b'"' => *within = Within::String,
            byte if byte == open => *depth += 1,
            _ => *depth -= 1,
        }
        if *depth == 0 {
            return End::At(at);
        }
    }
}

/// Returns whether these bytes, which contain no separator, may be a number, or are `true`, `false` or `null`.
fn is_scalar(bytes: &[u8]) -> bool {
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let is_literal = [&b"true"[..], b"false", b"null"].contains(&bytes);
    is_literal || bytes.iter().all(is_of_number)
}

/// Returns the position of the line after which a value that is too long is given up: a line that begins with a
/// bracket, as the values of a stream of lines do.
fn next_value(bytes: &[u8], from: usize) -> Option<usize> {
    let mut lines = memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at + 1);
    lines.find(|at| matches!(bytes.get(*at), Some(&(b'{' | b'[' | RECORD_SEPARATOR))))
}

impl JsonValues {
    /// Skips separators. Returns the position of the next value, or the length of the input.
    fn separators(&self, state: &mut State, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            state.position = match (*byte, state.position) {
                (b' ' | b'\t' | b'\r' | b'\n', position) => position,
                (RECORD_SEPARATOR, _) => {
                    state.is_sequence = true;
                    Position::Outside
                }
                (b'[', Position::Outside) if self.0.arrays == Arrays::Divide => Position::Begin,
                (b']', Position::Begin | Position::Element) => Position::Outside,
                (b',', Position::Element) => Position::Comma,
                _ => return at,
            };
        }
        bytes.len()
    }
}

impl StreamSplitter for JsonValues {
    type State = State;

    fn next(&mut self, state: &mut State, input: Input<'_>) -> Result<Found> {
        const SIGNATURE: &[u8] = b"\xef\xbb\xbf";
        if !state.has_begun {
            if input.len() < SIGNATURE.len() && SIGNATURE.starts_with(&input) && !input.is_end() {
                return Ok(Found::More);
            }
            state.has_begun = true;
            if input.starts_with(SIGNATURE) {
                return Ok(Found::Skip(SIGNATURE.len()));
            }
        }
        let bytes = input.bytes();
        let (start, from) = if state.open.is_some() {
            (0, input.seen())
        } else {
            let start = self.separators(state, bytes);
            (start, start)
        };
        let Some(first) = bytes.get(start) else { return Ok(Found::Skip(start)) };
        let is_unexpected = state.open.is_none() && state.position == Position::Element;
        let new = if is_unexpected { Open::Invalid(*first) } else { Open::new(*first) };
        let mut open = state.open.take().unwrap_or(new);
        let is_sequence = state.is_sequence;
        let find = |open: &mut Open, from| {
            if is_sequence {
                open.end_in_sequence(bytes, from, input.is_end())
            } else {
                open.end(bytes, from, input.is_end())
            }
        };
        let mut end = find(&mut open, from);
        if let (End::At(at), Open::Scalar) = (&end, open)
            && !input.is_truncated()
            && !is_scalar(&bytes[start..*at])
        {
            open = Open::Invalid(bytes[start]);
            end = find(&mut open, *at);
        }
        let is_long = bytes.len() - start > self.max_length();
        if let (End::Unknown, true) = (&end, is_long || input.is_truncated()) {
            let given_up = start.saturating_add(state.give_up).min(bytes.len());
            let from = if is_long { given_up } else { from.saturating_sub(1) };
            if let Some(next) = next_value(bytes, from) {
                state.give_up = (2 * state.give_up).clamp(1 << 10, self.max_length().max(1 << 10));
                end = End::Broken(next, "no end");
            }
        }
        match (end, open) {
            (End::Unknown, _) if start > 0 => Ok(Found::Skip(start)),
            (End::Unknown, open) => {
                state.open = Some(open);
                Ok(Found::More)
            }
            (End::At(end), _) => {
                state.give_up = 0;
                let is_element = state.position != Position::Outside;
                state.position = if is_element { Position::Element } else { Position::Outside };
                Ok(Found::message(start..end, end))
            }
            (End::Broken(len, _), Open::Invalid(first)) => {
                let expected = match std::mem::take(&mut state.position) {
                    Position::Outside => "a JSON value",
                    Position::Element => "a comma or `]` after an element of an array",
                    Position::Begin | Position::Comma => "an element of an array",
                };
                let error = Error::bad_data(format_args!(
                    "expected {expected}, found `{}`; skipped {len} bytes up to the next line",
                    first.escape_ascii()
                ));
                Ok(Found::Reject { len, error })
            }
            (End::Broken(len, why), _) => {
                state.position = Position::Outside;
                let error =
                    Error::bad_data(format_args!("a JSON value has {why}; skipped {len} bytes"));
                Ok(Found::Reject { len, error })
            }
        }
    }

    fn max_length(&self) -> usize {
        self.0.max_length.get()
    }
}

#[cfg(test)]
mod tests;
