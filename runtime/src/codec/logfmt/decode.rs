//! Decoding of lines. Text is not copied unless it has escapes: nodes refer to the message.

use tremor_abi::document::{Node, fingerprint, resolve_duplicates};

use super::{Options, is_of_key};
use crate::codec::{
    Error,
    buffer::{self, Bytes, Nodes, Span},
    copied::{signature_of, text},
    json::numbers,
    limit,
};

/// Decodes the message at `span`. `unescaped` is reused for every message.
///
/// # Errors
/// Returns an error of kind "bad data" if the message is not UTF-8 or a pair is invalid. The error has the position of
/// the first invalid pair. Both buffers are then unchanged.
pub(in crate::codec) fn decode(
    options: Options,
    unescaped: &mut Vec<u8>,
    bytes: &mut Bytes,
    span: Span,
    nodes: &mut Nodes,
) -> Result<u32, Error> {
    let message = buffer::range(span, bytes.len())?;
    text(&bytes[message.clone()])?;
    let root = buffer::next_index(nodes, 1)?;
    let before = (bytes.len(), nodes.len());
    let at = message.start + signature_of(&bytes[message.clone()]) as usize;
    let mut line =
        Line { options, unescaped, bytes, nodes, start: message.start, at, end: message.end };
    let decoded = line.pairs();
    if unescaped.len() > limit::KEPT {
        *unescaped = Vec::new();
    }
    if let Err(error) = decoded {
        bytes.truncate(before.0);
        nodes.truncate(before.1);
        return Err(error);
    }
    resolve_duplicates(bytes, nodes, before.1);
    Ok(root)
}

struct Line<'b> {
    options: Options,
    unescaped: &'b mut Vec<u8>,
    bytes: &'b mut Bytes,
    nodes: &'b mut Nodes,
    /// Positions of the start of the message, of the next byte to read, and of the end of the message.
    start: usize,
    at: usize,
    end: usize,
}

impl Line<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes[..self.end].get(self.at).copied()
    }

    #[cold]
    fn error(&self, at: usize, what: impl Into<Box<str>>) -> Error {
        Error::bad_data_at(at - self.start, what)
    }

    /// Moves to the first byte that does not fulfil `is_part`, or to the end. Returns the position before the move, and
    /// the number of bytes that were skipped.
    #[inline]
    fn skip(&mut self, is_part: impl Fn(u8) -> bool) -> (usize, usize) {
        let before = self.at;
        let rest = &self.bytes[before..self.end];
        let length = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
        self.at += length;
        (before, length)
    }

    fn pairs(&mut self) -> Result<(), Error> {
        let head = self.nodes.len();
        self.nodes.push(Node::object(0, 1));
        let mut pairs = 0;
        loop {
            self.skip(|byte| byte.is_ascii_whitespace());
            // A line without pairs is an error as well, so that blank lines are not events.
            if self.at == self.end && pairs > 0 {
                break;
            }
            let (key, length) = self.skip(is_of_key);
            if length == 0 {
                return Err(self.error(self.at, "expected a key"));
            }
            let print = fingerprint(&self.bytes[key..self.at]);
            self.nodes.push(Node::key(key as u64, narrow(length), print));
            match self.peek() {
                Some(b'=') => {
                    self.at += 1;
                    self.value()?;
                }
                Some(byte) if !byte.is_ascii_whitespace() => {
                    return Err(self.error(self.at, "expected `=` or a space after the key"));
                }
                _ => self.nodes.push(Node::bool(true)),
            }
            pairs += 1;
            limit::admit(self.end - self.start, self.nodes.len() - head)?;
        }
        self.nodes[head] = Node::object(pairs, 1);
        Ok(())
    }

    #[inline]
    fn value(&mut self) -> Result<(), Error> {
        if self.peek() == Some(b'"') {
            return self.quoted();
        }
        let (start, length) = self.skip(|byte| !byte.is_ascii_whitespace());
        let text = &self.bytes[start..self.at];
        let typed = if self.options.typed { scalar(text, start) } else { None };
        self.nodes.push(typed.unwrap_or(Node::string(start as u64, narrow(length))));
        Ok(())
    }

    fn quoted(&mut self) -> Result<(), Error> {
        let quote = self.at;
        self.at += 1;
        let mut has_escapes = false;
        let length = loop {
            let rest = &self.bytes[self.at..self.end];
            match memchr::memchr2(b'"', b'\\', rest) {
                None => return Err(self.error(quote, "unterminated quoted value")),
                Some(length) if rest[length] == b'"' => {
                    self.at += length + 1;
                    break self.at - quote - 2;
                }
                Some(length) => {
                    has_escapes = true;
                    self.at = (self.at + length + 2).min(self.end);
                }
            }
        };
        if self.peek().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Err(self.error(self.at, "expected a space after the quoted value"));
        }
        let mut start = quote + 1;
        let mut end = start + length;
        if has_escapes {
            self.unescaped.clear();
            unescape(&self.bytes[start..end], self.unescaped);
            start = self.bytes.len();
            self.bytes.extend_from_copy_slice(self.unescaped);
            end = self.bytes.len();
        }
        self.nodes.push(Node::string(start as u64, narrow(end - start)));
        Ok(())
    }
}

/// Converts the length of a part of a message, which fits 32 bits because the length of the message does.
#[inline]
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Returns the node of a number, a truth value or `null`, whose text is at `start`. Returns `None` for other text.
fn scalar(text: &[u8], start: usize) -> Option<Node> {
    match text {
        b"true" => Some(Node::bool(true)),
        b"false" => Some(Node::bool(false)),
        b"null" => Some(Node::null()),
        _ => numbers::node(text, start),
    }
}

/// Appends the text of a quoted value, with its escapes replaced.
fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(b'\\', text) {
        out.extend_from_slice(&text[..at]);
        let after = &text[at + 1..];
        let (character, length) = match after.first() {
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b't') => ('\t', 1),
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(byte @ (b'"' | b'\\' | b'/')) => (char::from(*byte), 1),
            Some(b'u') => unicode(after).unwrap_or(('\\', 0)),
            _ => ('\\', 0),
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        text = &after[length..];
    }
    out.extend_from_slice(text);
}

/// Returns the character of an escape such as `u00e9`, or of a pair such as `ud83d\ude00`, and the length of the escape
/// after the first backslash.
fn unicode(text: &[u8]) -> Option<(char, usize)> {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"u")?.get(..4)?;
        let digits = std::str::from_utf8(digits).ok().filter(|it| !it.starts_with('+'))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(text)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 5));
    }
    let second = unit(text.get(5..)?.strip_prefix(b"\\")?)?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 11))
}
