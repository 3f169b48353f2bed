//! Decoding of lines.

use tremor_abi::document::{Exact, Writer};

use crate::codec::{
    Error,
    copied::{signature_of, text},
    limit,
};

/// A name or tag as it is written in the line.
struct Name<'l> {
    text: &'l str,
    /// Bytes that a backslash before them escapes. Before any other byte, a backslash stands for itself.
    escapes: &'static [u8],
}

struct Line<'l> {
    text: &'l str,
    at: usize,
}

/// Decodes a line and writes its value.
pub(in crate::codec) fn decode(message: &[u8], writer: &mut Writer<'_>) -> Result<(), Error> {
    let text = text(message)?;
    let mut line = Line { text, at: signature_of(message) as usize };
    let mut unescaped = String::new();
    writer.begin_object();
    if line.peek() == Some(b'#') {
        return Err(line.error("expected a measurement, found a comment"));
    }
    let measurement = line.name(b", ", b", ", "a measurement")?;
    writer.key("measurement");
    writer.str(measurement.unescape(&mut unescaped));
    writer.key("tags");
    writer.begin_object();
    while line.take(b',') {
        let key = line.name(b",= ", b",= ", "the name of a tag")?;
        line.expect(b'=')?;
        writer.key(key.unescape(&mut unescaped));
        let value = line.name(b",= ", b",= ", "the value of a tag")?;
        writer.str(value.unescape(&mut unescaped));
        limit::admit(message.len(), writer.nodes())?;
    }
    writer.end_object();
    line.expect(b' ')?;
    line.skip_spaces();
    writer.key("fields");
    writer.begin_object();
    loop {
        let key = line.name(b",= ", b",= ", "the name of a field")?;
        line.expect(b'=')?;
        writer.key(key.unescape(&mut unescaped));
        line.field(writer, &mut unescaped)?;
        limit::admit(message.len(), writer.nodes())?;
        if !line.take(b',') {
            break;
        }
    }
    writer.end_object();
    if line.take(b' ') {
        line.skip_spaces();
        line.timestamp(writer)?;
    }
    if line.at < text.len() {
        return Err(line.error("expected the end of the line"));
    }
    writer.end_object();
    Ok(())
}

impl<'l> Line<'l> {
    fn bytes(&self) -> &'l [u8] {
        self.text.as_bytes()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_spaces(&mut self) {
        while self.take(b' ') {}
    }

    fn expect(&mut self, byte: u8) -> Result<(), Error> {
        if self.take(byte) {
            return Ok(());
        }
        let what = if byte == b' ' { "a space" } else { "`=`" };
        Err(self.error(format!("expected {what}")))
    }

    #[cold]
    fn error(&self, what: impl Into<Box<str>>) -> Error {
        Error::bad_data_at(self.at, what)
    }

    /// Reads up to the first byte of `ends` that is not escaped.
    fn name(&mut self, ends: &[u8], escapes: &'static [u8], what: &str) -> Result<Name<'l>, Error> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            let is_escape = byte == b'\\'
                && self.bytes().get(self.at + 1).is_some_and(|next| escapes.contains(next));
            if is_escape {
                self.at += 2;
            } else if ends.contains(&byte) || byte == b'\n' {
                break;
            } else {
                self.at += 1;
            }
        }
        if self.at == start {
            return Err(self.error(format!("expected {what}")));
        }
        Ok(Name { text: &self.text[start..self.at], escapes })
    }

    fn field(&mut self, writer: &mut Writer<'_>, unescaped: &mut String) -> Result<(), Error> {
        if self.take(b'"') {
            let start = self.at;
            loop {
                match self.peek() {
                    Some(b'"') => break,
                    Some(b'\\') => self.at += 2,
                    Some(_) => self.at += 1,
                    None => {
                        self.at = start - 1;
                        return Err(self.error("unterminated text"));
                    }
                }
            }
            let text = Name { text: &self.text[start..self.at], escapes: b"\"\\" };
            writer.str(text.unescape(unescaped));
            self.at += 1;
            return Ok(());
        }
        let length = self.bytes()[self.at..].iter().take_while(|byte| !b", \n".contains(byte));
        let end = self.at + length.count();
        if !scalar(&self.text[self.at..end], writer) {
            return Err(self.error(
                "expected a number, an integer with `i` or `u`, a truth value or text in quotes",
            ));
        }
        self.at = end;
        Ok(())
    }

    fn timestamp(&mut self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let rest = self.text[self.at..].trim_end_matches(' ');
        if !rest.is_empty() {
            let Some(timestamp) = integer(rest).and_then(|rest| rest.parse().ok()) else {
                return Err(self.error("expected a timestamp in ns of at most 64 bits"));
            };
            writer.key("timestamp");
            writer.i64(timestamp);
        }
        self.at = self.text.len();
        Ok(())
    }
}

impl Name<'_> {
    /// Returns the text without its escapes. `out` is used only if the text contains escapes.
    fn unescape<'t>(&'t self, out: &'t mut String) -> &'t str {
        if !self.text.contains('\\') {
            return self.text;
        }
        out.clear();
        let mut rest = self.text;
        while let Some(at) = rest.find('\\') {
            out.push_str(&rest[..at]);
            let next = rest.as_bytes().get(at + 1).filter(|next| self.escapes.contains(next));
            match next {
                Some(next) => out.push(char::from(*next)),
                None => out.push('\\'),
            }
            rest = &rest[at + 1 + usize::from(next.is_some())..];
        }
        out.push_str(rest);
        out
    }
}

/// Returns `text` if it is a decimal integer with an optional minus sign.
fn integer(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Writes a number or a truth value. Returns `false` if `text` is neither.
fn scalar(text: &str, writer: &mut Writer<'_>) -> bool {
    match text {
        "t" | "T" | "true" | "True" | "TRUE" => writer.bool(true),
        "f" | "F" | "false" | "False" | "FALSE" => writer.bool(false),
        _ => {
            if let Some(text) = text.strip_suffix('i') {
                let Some(number) = integer(text).and_then(|text| text.parse().ok()) else {
                    return false;
                };
                writer.i64(number);
            } else if let Some(text) = text.strip_suffix('u') {
                let Some(number) = integer(text).and_then(|text| text.parse().ok()) else {
                    return false;
                };
                writer.u64(number);
            } else {
                // The protocol has only numbers within the range of floats.
                let is_finite = text.parse().is_ok_and(f64::is_finite);
                let Some(number) = Exact::float(text).filter(|_| is_finite) else { return false };
                writer.exact(&number);
            }
        }
    }
    true
}
