//! Positions at which a text does not match its format, and a cursor that finds them.

use std::borrow::Cow;

/// Position in a text at which parsing stopped, and the syntax that was expected there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Offset in bytes from the start of the text.
    at: usize,
    expected: Cow<'static, str>,
}

/// Maximum number of characters of the found text that a message quotes.
const QUOTED: usize = 16;

impl Stop {
    pub(crate) fn new(at: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self { at, expected: expected.into() }
    }

    /// Returns the same position in a longer text, of which the parsed text begins at byte `offset`.
    pub(crate) fn moved_by(mut self, offset: usize) -> Self {
        self.at += offset;
        self
    }

    /// Returns the message: the expected syntax, its position, and the text at that position.
    pub(crate) fn describe(&self, text: &str) -> String {
        let Self { at, expected } = self;
        let rest = text.get(*at..).unwrap_or_default();
        if rest.is_empty() {
            return format!("expected {expected} at byte {at}, found the end of the text");
        }
        let end = rest.char_indices().nth(QUOTED).map_or(rest.len(), |(end, _)| end);
        let more = if end < rest.len() { "…" } else { "" };
        format!("expected {expected} at byte {at}, found {:?}{more}", &rest[..end])
    }
}

/// A position in a text that is being parsed.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// Starts after the white space at the beginning of the text, and ends before the white space at its end.
    pub(crate) fn trimmed(text: &'t str) -> Self {
        let end = text.trim_ascii_end().len();
        let text = &text[..end];
        Self { text, at: end - text.trim_ascii_start().len() }
    }

    /// Returns the offset in bytes from the start of the text.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text from the position to the end.
    pub(crate) fn rest(&self) -> &'t str {
        // A position is always the start or the end of an ASCII character.
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn stop(&self, expected: impl Into<Cow<'static, str>>) -> Stop {
        Stop::new(self.at, expected)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips the ASCII character `character` if it is the next one. Returns whether it was skipped.
    pub(crate) fn skip(&mut self, character: u8) -> bool {
        let is_next = self.text.as_bytes().get(self.at) == Some(&character);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips the ASCII character `character`, which has to be the next one.
    pub(crate) fn expect(&mut self, character: u8, expected: &'static str) -> Result<(), Stop> {
        if self.skip(character) { Ok(()) } else { Err(self.stop(expected)) }
    }

    /// Skips spaces, of which there has to be at least one.
    pub(crate) fn spaces(&mut self, expected: &'static str) -> Result<(), Stop> {
        self.expect(b' ', expected)?;
        while self.skip(b' ') {}
        Ok(())
    }

    /// Takes the text up to the next ASCII character `end`, and moves the position before this
    /// character. Returns `None` if the text has no such character.
    pub(crate) fn until(&mut self, end: u8) -> Option<&'t str> {
        let rest = self.rest();
        let len = memchr::memchr(end, rest.as_bytes())?;
        self.at += len;
        Some(&rest[..len])
    }

    /// Takes the text up to the next space or the end, which must not be empty.
    pub(crate) fn word(&mut self, expected: &'static str) -> Result<&'t str, Stop> {
        let rest = self.rest();
        let len = memchr::memchr(b' ', rest.as_bytes()).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.stop(expected));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// Takes exactly `len` bytes. Returns `None` if the text is shorter or has no character
    /// boundary there.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'t str> {
        let taken = self.rest().get(..len)?;
        self.at += len;
        Some(taken)
    }

    /// Takes the decimal digits that are next, at least one.
    pub(crate) fn digits(&mut self, expected: &'static str) -> Result<&'t str, Stop> {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        if len == 0 {
            return Err(self.stop(expected));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// Takes a decimal number of at most 64 bits.
    pub(crate) fn number(&mut self, expected: &'static str) -> Result<u64, Stop> {
        let start = self.at;
        let digits = self.digits(expected)?;
        digits.parse().map_err(|_| Stop::new(start, format!("{expected} of at most 64 bits")))
    }

    /// Checks that the text ends here.
    pub(crate) fn end(&self, expected: &'static str) -> Result<(), Stop> {
        if self.is_at_end() { Ok(()) } else { Err(self.stop(expected)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Stop};

    #[test]
    fn message_quotes_the_text_at_the_position() {
        let text = "ab\u{e4}cdefghijklmnopqrstuvwxyz";
        assert_eq!(
            Stop::new(2, "`x`").describe(text),
            "expected `x` at byte 2, found \"\u{e4}cdefghijklmnopq\"…"
        );
        assert_eq!(
            Stop::new(2, "`x`").describe("ab\"c"),
            "expected `x` at byte 2, found \"\\\"c\""
        );
        let end = "expected `x` at byte 2, found the end of the text";
        assert_eq!(Stop::new(2, "`x`").describe("ab"), end);
        assert_eq!(Stop::new(3, "`x`").describe("ab\u{e4}"), end.replace('2', "3"));
    }

    #[test]
    fn cursor_passes_what_it_takes() {
        let mut cursor = Cursor::trimmed("  12 \"a b\" \n");
        assert_eq!((cursor.at(), cursor.number("a number")), (2, Ok(12)));
        assert_eq!(cursor.spaces("a space"), Ok(()));
        assert_eq!(cursor.expect(b'"', "`\"`"), Ok(()));
        assert_eq!(cursor.until(b'"'), Some("a b"));
        assert_eq!(cursor.expect(b'x', "`x`"), Err(Stop::new(9, "`x`")));
        assert!(cursor.skip(b'"') && cursor.is_at_end() && cursor.rest().is_empty());
        let mut cursor = Cursor::trimmed("18446744073709551616");
        let error = cursor.number("a number").unwrap_err();
        assert_eq!(error, Stop::new(0, "a number of at most 64 bits"));
        assert_eq!(Cursor::trimmed(" ").word("a word"), Err(Stop::new(0, "a word")));
    }
}
