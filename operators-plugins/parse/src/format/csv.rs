//! A record of comma-separated values, as RFC 4180 defines it.

use tremor_pdk::{Error, Result, Writer};

use crate::{
    config::Config,
    stop::Stop,
    types::{Type, Types},
};

/// A parser of records.
#[derive(Debug)]
pub(crate) struct Csv {
    delimiter: u8,
    /// Names and types of the values; empty if a record is an array.
    columns: Vec<(String, Type)>,
    /// Text without doubled quotes.
    unquoted: String,
}

impl Csv {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let delimiter = config.delimiter.as_deref().unwrap_or(",");
        let &[delimiter] = delimiter.as_bytes() else {
            return Err(invalid_delimiter(delimiter));
        };
        if !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\n' | b'\r') {
            return Err(invalid_delimiter(&char::from(delimiter).to_string()));
        }
        let types = Types::new(config.types.as_ref());
        let columns = config.columns.as_deref().unwrap_or_default();
        if config.columns.is_some() && columns.is_empty() {
            return Err(Error::configuration(
                "`columns` is empty: add a column, or remove the key",
            ));
        }
        if let Some(twice) = (1..columns.len()).find(|at| columns[..*at].contains(&columns[*at])) {
            return Err(Error::configuration(format_args!(
                "invalid `columns`: `{}` appears twice; rename one of them",
                columns[twice]
            )));
        }
        if let Some(name) = types.unknown(|name| columns.iter().any(|column| column == name)) {
            return Err(Error::configuration(format_args!(
                "invalid `types`: `columns` has no `{name}`"
            )));
        }
        let columns = columns.iter().map(|name| (name.clone(), types.of(name))).collect();
        Ok(Self { delimiter, columns, unquoted: String::new() })
    }

    /// Writes the values of a record: an object if the columns have names, and an array otherwise.
    pub(crate) fn value(&mut self, text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let is_array = self.columns.is_empty();
        if is_array {
            out.begin_array();
        } else {
            out.begin_object();
        }
        let (mut at, mut count) = (0, 0);
        loop {
            let (value, end) = value(text, at, self.delimiter, &mut self.unquoted)?;
            if is_array {
                out.str(value);
            } else {
                let Some((name, of)) = self.columns.get(count) else {
                    let expected = format!("{} values, for `columns`", self.columns.len());
                    return Err(Stop::new(at, expected));
                };
                out.key(name);
                of.write(value, at, out)?;
            }
            count += 1;
            if end == text.len() {
                break;
            }
            at = end + 1;
        }
        if is_array {
            out.end_array();
            return Ok(());
        }
        out.end_object();
        if count < self.columns.len() {
            let missing = &self.columns[count].0;
            return Err(Stop::new(text.len(), format!("a value of the column `{missing}`")));
        }
        Ok(())
    }
}

fn invalid_delimiter(found: &str) -> Error {
    Error::configuration(format_args!(
        "invalid `delimiter` {found:?}: expected one ASCII character other than `\"` and the end of \
         a line"
    ))
}

/// Expected syntax at the end of a line within a record.
const SECOND_LINE: &str = "a single record, without the end of a line outside of quotes,";

/// Reads the value that begins at `at`. Returns the position after it, at a delimiter or the end.
fn value<'a>(
    text: &'a str,
    at: usize,
    delimiter: u8,
    unquoted: &'a mut String,
) -> Result<(&'a str, usize), Stop> {
    let bytes = text.as_bytes();
    if bytes.get(at) != Some(&b'"') {
        let rest = &bytes[at..];
        let end = at + memchr::memchr3(delimiter, b'\r', b'\n', rest).unwrap_or(rest.len());
        if end < text.len() && bytes[end] != delimiter {
            return Err(Stop::new(end, SECOND_LINE));
        }
        return Ok((&text[at..end], end));
    }
    let (mut from, mut is_copied) = (at + 1, false);
    loop {
        let Some(quote) = memchr::memchr(b'"', &bytes[from..]) else {
            return Err(Stop::new(text.len(), "`\"` at the end of a quoted value"));
        };
        let quote = from + quote;
        let end = quote + 1;
        if bytes.get(end) == Some(&b'"') {
            if !is_copied {
                unquoted.clear();
                is_copied = true;
            }
            unquoted.push_str(&text[from..end]);
            from = end + 1;
            continue;
        }
        if end < text.len() && bytes[end] != delimiter {
            if matches!(bytes[end], b'\r' | b'\n') {
                return Err(Stop::new(end, SECOND_LINE));
            }
            let delimiter = char::from(delimiter);
            return Err(Stop::new(end, format!("`{delimiter}` or the end after a quoted value")));
        }
        if !is_copied {
            return Ok((&text[from..quote], end));
        }
        unquoted.push_str(&text[from..quote]);
        return Ok((unquoted, end));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{parsed, parser};

    #[test]
    fn record_is_an_array_or_an_object() {
        let mut parser = parser(json!({ "format": "csv" }));
        for (text, expected) in [
            ("a,b\r\n", r#"["a","b"]"#),
            ("", r#"[""]"#),
            (",", r#"["",""]"#),
            ("\"a \"\"b\"\", c\",d,\"\"", r#"["a \"b\", c","d",""]"#),
            ("\"two\nlines\"", r#"["two\nlines"]"#),
            ("a\"b", r#"["a\"b"]"#),
        ] {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            (
                "\"a",
                "expected `\"` at the end of a quoted value at byte 2, found the end of the text",
            ),
            (
                "a,b\nc",
                "expected a single record, without the end of a line outside of quotes, at byte 3, found \"\\nc\"",
            ),
            (
                "\"a\"\nb",
                "expected a single record, without the end of a line outside of quotes, at byte 3, found \"\\nb\"",
            ),
            (
                "a\r\n\r\n",
                "expected a single record, without the end of a line outside of quotes, at byte 1, found \"\\r\\n\\r\\n\"",
            ),
            ("\"a\"b", "expected `,` or the end after a quoted value at byte 3, found \"b\""),
        ] {
            assert_eq!(parsed(&mut parser, text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn columns_have_names_and_types() {
        let mut parser = parser(json!({
            "format": "csv", "delimiter": ";", "columns": ["name", "n"], "types": { "n": "integer" },
        }));
        assert_eq!(parsed(&mut parser, "x;7").as_deref(), Ok(r#"{"name":"x","n":7}"#));
        for (text, expected) in [
            ("x", "expected a value of the column `n` at byte 1, found the end of the text"),
            ("x;1;2", "expected 2 values, for `columns` at byte 4, found \"2\""),
            ("x;y", "expected an integer of at most 64 bits at byte 2, found \"y\""),
        ] {
            assert_eq!(parsed(&mut parser, text).unwrap_err(), expected, "{text}");
        }
    }
}
