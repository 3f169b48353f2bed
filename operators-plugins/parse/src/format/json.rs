//! JSON, as RFC 8259 defines it.

use tremor_pdk::{Exact, Writer};

use crate::stop::Stop;

/// Maximum depth of nested arrays and objects, which is that of the codec `json`.
const MAX_DEPTH: usize = 512;

/// A parser of JSON, which writes values while it reads them.
#[derive(Debug, Default)]
pub(crate) struct Json {
    /// Text without escapes.
    unescaped: String,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

/// An open array or object, and whether it has an element already.
#[derive(Clone, Copy)]
struct Open {
    is_object: bool,
    has_element: bool,
}

impl Json {
    /// Writes the value that the text consists of.
    pub(crate) fn value(&mut self, text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
        let mut reader = Reader { text, at: 0 };
        let mut open: Vec<Open> = Vec::new();
        loop {
            reader.space();
            if let Some(last) = open.last_mut() {
                let close = if last.is_object { b'}' } else { b']' };
                if reader.skip(close) {
                    if last.is_object {
                        out.end_object();
                    } else {
                        out.end_array();
                    }
                    open.pop();
                    if open.is_empty() {
                        break;
                    }
                    continue;
                }
                if last.has_element {
                    let expected = if last.is_object { "`,` or `}`" } else { "`,` or `]`" };
                    reader.expect(b',', expected)?;
                    reader.space();
                }
                last.has_element = true;
                if last.is_object {
                    let key = reader.string("a key in double quotes", &mut self.unescaped)?;
                    out.key(key);
                    reader.space();
                    reader.expect(b':', "`:` after a key")?;
                    reader.space();
                }
            }
            match reader.peek() {
                Some(start @ (b'{' | b'[')) => {
                    if open.len() == MAX_DEPTH {
                        let expected = format!("at most {MAX_DEPTH} levels of arrays and objects");
                        return Err(reader.stop(expected));
                    }
                    reader.at += 1;
                    let is_object = start == b'{';
                    if is_object {
                        out.begin_object();
                    } else {
                        out.begin_array();
                    }
                    open.push(Open { is_object, has_element: false });
                    continue;
                }
                Some(b'"') => out.str(reader.string("a text", &mut self.unescaped)?),
                Some(b'-' | b'0'..=b'9') => reader.number(out)?,
                _ => reader.literal(out)?,
            }
            if open.is_empty() {
                break;
            }
        }
        reader.space();
        if reader.at < text.len() { Err(reader.stop("the end of the text")) } else { Ok(()) }
    }
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn stop(&self, expected: impl Into<std::borrow::Cow<'static, str>>) -> Stop {
        Stop::new(self.at, expected)
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Stop> {
        if self.skip(byte) { Ok(()) } else { Err(self.stop(expected)) }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn literal(&mut self, out: &mut Writer<'_>) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let len = if rest.starts_with("null") {
            out.null();
            4
        } else if rest.starts_with("true") {
            out.bool(true);
            4
        } else if rest.starts_with("false") {
            out.bool(false);
            5
        } else {
            return Err(self.stop("a value of JSON"));
        };
        self.at += len;
        Ok(())
    }

    /// Writes a number in the representation that keeps its value.
    fn number(&mut self, out: &mut Writer<'_>) -> Result<(), Stop> {
        let start = self.at;
        self.skip(b'-');
        let whole = self.at;
        self.digits()?;
        if self.text.as_bytes()[whole] == b'0' && self.at > whole + 1 {
            return Err(Stop::new(whole, "a number without zeros before it"));
        }
        if self.skip(b'.') {
            self.digits()?;
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _ = self.skip(b'+') || self.skip(b'-');
            self.digits()?;
        }
        match Exact::new(&self.text[start..self.at]) {
            Some(number) => out.exact(&number),
            None => return Err(Stop::new(start, "a number")),
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.stop("a digit")) } else { Ok(()) }
    }

    /// Reads a text in double quotes. A text with escapes is unescaped in `unescaped`.
    fn string<'a>(
        &mut self,
        expected: &'static str,
        unescaped: &'a mut String,
    ) -> Result<&'a str, Stop>
    where
        't: 'a,
    {
        self.expect(b'"', expected)?;
        let start = self.at;
        self.plain()?;
        if self.skip(b'"') {
            return Ok(&self.text[start..self.at - 1]);
        }
        unescaped.clear();
        let mut from = start;
        loop {
            unescaped.push_str(&self.text[from..self.at]);
            if self.skip(b'"') {
                return Ok(unescaped);
            }
            unescaped.push(self.escape()?);
            from = self.at;
            self.plain()?;
        }
    }

    /// Passes text up to the next quote or backslash.
    fn plain(&mut self) -> Result<(), Stop> {
        loop {
            match self.peek() {
                Some(b'"' | b'\\') => return Ok(()),
                Some(0..0x20) => return Err(self.stop("no control character in a text")),
                Some(_) => self.at += 1,
                None => return Err(self.stop("`\"` at the end of a text")),
            }
        }
    }

    /// Reads an escape that begins with a backslash.
    fn escape(&mut self) -> Result<char, Stop> {
        let start = self.at;
        self.at += 1;
        let escaped = self.peek();
        self.at += usize::from(escaped.is_some());
        Ok(match escaped {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let stop = || Stop::new(start, "a character of Unicode such as `\\u00e4`");
                let first = self.unit().ok_or_else(stop)?;
                let code = if (0xd800..0xdc00).contains(&first) {
                    let is_escaped = self.skip(b'\\') && self.skip(b'u');
                    let second = if is_escaped { self.unit() } else { None };
                    let second = second.filter(|unit| (0xdc00..0xe000).contains(unit));
                    0x10000 + ((first - 0xd800) << 10) + (second.ok_or_else(stop)? - 0xdc00)
                } else {
                    first
                };
                char::from_u32(code).ok_or_else(stop)?
            }
            _ => return Err(Stop::new(start, "an escape such as `\\n` or `\\u00e4`")),
        })
    }

    /// Reads four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        self.at += 4;
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value as Json;
    use tremor_pdk::{Number, Value};

    use crate::{
        format::Parser,
        testing::{parsed, written},
        types::Type,
    };

    fn json(text: &str) -> Result<String, String> {
        parsed(&mut Parser::Json(super::Json::default()), text)
    }

    #[test]
    fn values_of_all_types_are_read() {
        for (text, expected) in [
            (
                r#" {"a": [1, -2.5, "x", null, true, false], "b": {}, "c": [] } "#,
                r#"{"a":[1,-2.5,"x",null,true,false],"b":{},"c":[]}"#,
            ),
            (r#""\u00e4\n\ud83d\ude00\/""#, "\"\u{e4}\\n\u{1f600}/\""),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709551616"),
            ("1e400", "1e400"),
            ("-0", "-0.0"),
            ("[1.10,3.14159265358979323846]", "[1.1,3.14159265358979323846]"),
            ("[4.9e-325,9007199254740993.0,5e-324]", "[4.9e-325,9007199254740993.0,5e-324]"),
        ] {
            assert_eq!(json(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn error_names_position_and_expectation() {
        for (text, expected) in [
            ("", "expected a value of JSON at byte 0, found the end of the text"),
            ("{\"a\" 1}", "expected `:` after a key at byte 5, found \"1}\""),
            ("[1 2]", "expected `,` or `]` at byte 3, found \"2]\""),
            ("[1,]", "expected a value of JSON at byte 3, found \"]\""),
            ("{\"a\":1,}", "expected a key in double quotes at byte 7, found \"}\""),
            ("01", "expected a number without zeros before it at byte 0, found \"01\""),
            ("1.", "expected a digit at byte 2, found the end of the text"),
            ("\"a\nb\"", "expected no control character in a text at byte 2, found \"\\nb\\\"\""),
            (
                "\"\\ud800\"",
                "expected a character of Unicode such as `\\u00e4` at byte 1, found \"\\\\ud800\\\"\"",
            ),
            ("1 x", "expected the end of the text at byte 2, found \"x\""),
        ] {
            assert_eq!(json(text).unwrap_err(), expected, "{text}");
        }
        assert!(json(&"[".repeat(512)).unwrap_err().contains("value of JSON"));
        assert!(json(&"[".repeat(513)).unwrap_err().contains("512 levels"));
        assert!(json(&format!("{}{}", "[".repeat(512), "]".repeat(512))).is_ok());
    }

    fn arbitrary() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<i32>().prop_map(|n| Json::from(f64::from(n) / 8.0)),
            any::<String>().prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(Json::from_iter),
            ]
        })
    }

    proptest! {
        /// The judge is the comparison of numbers that are kept as text.
        #[test]
        fn numbers_keep_their_value_and_sign(
            text in r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        ) {
            let number = |text: &str| Value::Number(Number::new(text.to_owned()).unwrap());
            let read = json(&text).unwrap();
            prop_assert_eq!(number(&read), number(&text));
            if text.contains('-') && text.contains(['.', 'e', 'E']) {
                prop_assert_eq!(read.starts_with('-'), text.starts_with('-'));
            }
            let float = written(|out| Type::Float.write(&text, 0, out));
            if text.parse().is_ok_and(f64::is_finite) {
                prop_assert_eq!(number(&float.unwrap()), number(&text));
            } else {
                prop_assert!(float.is_err());
            }
        }

        #[test]
        fn every_value_of_serde_json_is_read(value in arbitrary()) {
            let read = json(&value.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<Json>(&read).unwrap(), value);
        }

        #[test]
        fn same_texts_are_valid_as_for_serde_json(text in r#"[\[\]{}:,"\\0-9a-fu.eE+ -]{0,12}"#) {
            let expected = serde_json::from_str::<Json>(&text);
            if let Err(error) = &expected {
                // `parse` keeps a number that is out of range as text.
                prop_assume!(!error.to_string().contains("out of range"));
            }
            prop_assert_eq!(json(&text).is_ok(), expected.is_ok());
        }
    }
}
