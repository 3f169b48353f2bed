//! Parsing of the lines of an exposition.

use std::borrow::Cow;

use tremor_pdk::Error;

use crate::{config::Format, family::Kind, numbers};

/// A fault of a text, and its position in bytes.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl Wrong {
    #[cold]
    pub(crate) fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Returns the error, with the line and the column (a byte), both counted from 1.
    #[cold]
    pub(crate) fn in_text(&self, text: &[u8]) -> Error {
        let before = &text[..self.at.min(text.len())];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = before.len() - start + 1;
        Error::bad_data(format_args!("line {line}, column {column}: {}", self.what))
    }
}

pub(crate) type Parsed<T> = Result<T, Wrong>;

/// A line with content. If the line is a sample, only its name has been read.
#[derive(Debug)]
pub(crate) enum Line<'t> {
    Help { name: &'t str, help: Cow<'t, str> },
    Type { name: &'t str, kind: Kind },
    Unit { name: &'t str, unit: &'t str },
    Sample { name: &'t str },
    Eof,
}

/// A text, and the position up to which it has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parser<'t> {
    text: &'t str,
    pub(crate) at: usize,
    format: Format,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t str, format: Format) -> Self {
        // A UTF-8 signature is not a part of the text.
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, at, format }
    }

    /// Reads the next line with content, and returns it with its position.
    pub(crate) fn line(&mut self) -> Parsed<Option<(usize, Line<'t>)>> {
        loop {
            self.blanks();
            let start = self.at;
            match self.peek() {
                None => return Ok(None),
                Some(b'\n') if self.format == Format::Text => self.at += 1,
                Some(b'#') => {
                    if let Some(line) = self.comment() {
                        return Ok(Some((start, line)));
                    }
                }
                Some(_) => return Ok(Some((start, Line::Sample { name: self.metric_name()? }))),
            }
        }
    }

    /// Reads a line that starts with `#`. Returns `None` for a comment, and for an invalid description of a family, which
    /// is ignored so that no sample is lost.
    fn comment(&mut self) -> Option<Line<'t>> {
        self.at += 1;
        let line = self.description();
        self.rest_of_line();
        self.take(b'\n');
        line
    }

    fn description(&mut self) -> Option<Line<'t>> {
        let is_open_metrics = self.format == Format::OpenMetrics;
        if is_open_metrics {
            self.gap().ok()?;
        }
        self.blanks();
        match self.word() {
            "HELP" => self.help().ok(),
            "TYPE" => {
                let (name, word) = self.described()?;
                let kind = Kind::of_line(word, self.format).unwrap_or(Kind::Untyped);
                Some(Line::Type { name, kind })
            }
            "UNIT" if is_open_metrics => {
                self.described().map(|(name, unit)| Line::Unit { name, unit })
            }
            "EOF" if is_open_metrics && self.is_line_end() => Some(Line::Eof),
            _ => None,
        }
    }

    /// Reads the name of a family and the word after it.
    fn described(&mut self) -> Option<(&'t str, &'t str)> {
        self.gap().ok()?;
        let name = self.metric_name().ok()?;
        self.gap().ok()?;
        let word = self.word();
        (!word.is_empty()).then_some((name, word))
    }

    /// Reads the name and the text of a `HELP` line.
    fn help(&mut self) -> Parsed<Line<'t>> {
        self.gap()?;
        let name = self.metric_name()?;
        if !self.is_line_end() {
            self.gap()?;
        }
        let raw = self.rest_of_line();
        if !raw.contains('\\') {
            return Ok(Line::Help { name, help: Cow::Borrowed(raw) });
        }
        let mut help = String::with_capacity(raw.len());
        unescape(raw, self.format == Format::OpenMetrics, &mut help);
        Ok(Line::Help { name, help: Cow::Owned(help) })
    }

    /// Reads the name of a metric.
    fn metric_name(&mut self) -> Parsed<&'t str> {
        self.name(
            b":",
            "expected the name of a metric: letters, digits, `_` and `:`, and no digit first",
        )
    }

    fn name(&mut self, more: &[u8], expected: &str) -> Parsed<&'t str> {
        let rest = &self.text[self.at..];
        let is_letter =
            |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || more.contains(&byte);
        let length =
            rest.bytes().take_while(|byte| is_letter(*byte) || byte.is_ascii_digit()).count();
        if length == 0 || rest.as_bytes()[0].is_ascii_digit() {
            return Err(Wrong::new(self.at, expected));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// Reads the labels of a sample or an exemplar, if any. Calls `label` with the name of each label, its position,
    /// and its value.
    pub(crate) fn labels(
        &mut self,
        unescaped: &mut String,
        mut label: impl FnMut(&'t str, usize, &str) -> Parsed<()>,
    ) -> Parsed<()> {
        let mut ahead = *self;
        ahead.blanks();
        if !ahead.take(b'{') {
            return Ok(());
        }
        *self = ahead;
        let mut is_first = true;
        loop {
            self.blanks();
            if (is_first || self.format == Format::Text) && self.take(b'}') {
                return Ok(());
            }
            is_first = false;
            let position = self.at;
            let name = self.name(
                b"",
                "expected the name of a label: letters, digits and `_`, and no digit first",
            )?;
            self.blanks();
            self.expect(b'=', "expected `=` after the name of a label")?;
            self.blanks();
            let raw = self.quoted()?;
            if raw.contains('\\') {
                unescaped.clear();
                unescape(raw, true, unescaped);
                label(name, position, unescaped)?;
            } else {
                label(name, position, raw)?;
            }
            self.blanks();
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',', "expected `,` or `}` after a label")?;
        }
    }

    /// Reads a quoted text, and returns it with its escapes.
    fn quoted(&mut self) -> Parsed<&'t str> {
        let start = self.at;
        self.expect(b'"', "expected the value of a label in quotes")?;
        let rest = &self.text[self.at..];
        let mut length = 0;
        loop {
            match rest.as_bytes().get(length) {
                Some(b'"') => break,
                Some(b'\\')
                    if rest.as_bytes().get(length + 1).is_some_and(|next| *next != b'\n') =>
                {
                    length += 2;
                }
                Some(b'\n') | None => {
                    return Err(Wrong::new(start, "expected a closing quote in this line"));
                }
                Some(_) => length += 1,
            }
        }
        self.at += length + 1;
        Ok(&rest[..length])
    }

    /// Reads the value of a sample or an exemplar, and the blank before it.
    pub(crate) fn value(&mut self) -> Parsed<f64> {
        let has_labels = self.text[..self.at].ends_with('}');
        if self.format == Format::Text && has_labels {
            self.blanks();
        } else {
            self.gap()?;
        }
        let start = self.at;
        numbers::value(self.word())
            .ok_or_else(|| Wrong::new(start, "expected a number, `NaN`, `+Inf` or `-Inf`"))
    }

    /// Reads the time of a sample or an exemplar in ns, if there is one.
    pub(crate) fn timestamp(&mut self) -> Parsed<Option<i64>> {
        if self.is_line_end() || self.rest().starts_with(" #") {
            return Ok(None);
        }
        self.gap()?;
        if self.is_line_end() {
            return Ok(None);
        }
        let start = self.at;
        let expected = match self.format {
            Format::Text => "expected a time in ms since the Unix epoch, or the end of the line",
            Format::OpenMetrics => "expected a time in seconds since the Unix epoch",
        };
        let time = numbers::timestamp(self.word(), self.format);
        time.map(Some).ok_or_else(|| Wrong::new(start, expected))
    }

    /// Consumes the start of an exemplar. Returns whether an exemplar follows; only `OpenMetrics` has exemplars.
    pub(crate) fn takes_exemplar(&mut self) -> bool {
        let found = self.format == Format::OpenMetrics && self.rest().starts_with(" # {");
        self.at += if found { 3 } else { 0 };
        found
    }

    /// Consumes the end of a line, or reaches the end of the text.
    pub(crate) fn end_line(&mut self) -> Parsed<()> {
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(b'\n') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Wrong::new(self.at, "expected the end of the line")),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn is_line_end(&self) -> bool {
        matches!(self.peek(), None | Some(b'\n'))
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Parsed<()> {
        if self.take(byte) { Ok(()) } else { Err(Wrong::new(self.at, expected)) }
    }

    /// Skips optional blanks, which `OpenMetrics` does not allow.
    fn blanks(&mut self) {
        if self.format == Format::Text {
            self.at += self.rest().bytes().take_while(|byte| b" \t".contains(byte)).count();
        }
    }

    /// Consumes the separator of two words: blanks, or one space in `OpenMetrics`.
    fn gap(&mut self) -> Parsed<()> {
        let start = self.at;
        match self.format {
            Format::Text => self.blanks(),
            Format::OpenMetrics => self.at += usize::from(self.peek() == Some(b' ')),
        }
        let is_there = self.at > start;
        if is_there { Ok(()) } else { Err(Wrong::new(start, "expected a space")) }
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| !b" \t\n".contains(byte)).count();
        self.at += length;
        &rest[..length]
    }

    fn rest_of_line(&mut self) -> &'t str {
        let rest = self.rest();
        let line = rest.split('\n').next().unwrap_or_default();
        self.at += line.len();
        line
    }
}

/// Replaces the escapes of a text. A backslash before a character that needs no escape is kept, as
/// in Prometheus' own parser, because exporters are tested with that parser.
fn unescape(raw: &str, has_quotes: bool, out: &mut String) {
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => out.push('\n'),
            Some('\\') => out.push('\\'),
            Some('"') if has_quotes => out.push('"'),
            other => {
                out.push('\\');
                out.extend(other);
            }
        }
    }
}
