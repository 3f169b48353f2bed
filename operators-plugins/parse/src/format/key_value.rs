//! Pairs of a key and a value, such as `level=warn msg="no space left"`.

use memchr::memmem;
use tremor_pdk::{Error, Result, Writer};

use crate::{config::Config, stop::Stop, types::Types};

/// A parser of pairs.
#[derive(Debug)]
pub(crate) struct KeyValue {
    /// Text between a key and its value.
    of_value: String,
    /// Text between two pairs.
    of_pair: String,
    standalone: bool,
    types: Types,
    unquoted: String,
}

impl KeyValue {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let of_value = config.key_value_delimiter.clone().unwrap_or_else(|| "=".to_owned());
        let of_pair = config.field_delimiter.clone().unwrap_or_else(|| " ".to_owned());
        for (key, delimiter) in [("key_value_delimiter", &of_value), ("field_delimiter", &of_pair)]
        {
            if delimiter.is_empty() || delimiter.contains(['"', '\'', '\\']) {
                let message = format_args!(
                    "invalid `{key}` `{delimiter}`: expected a text without quotes and backslashes"
                );
                return Err(Error::configuration(message));
            }
        }
        if of_value == of_pair {
            return Err(Error::configuration(format_args!(
                "`key_value_delimiter` and `field_delimiter` are both `{of_value}`: change one of them"
            )));
        }
        Ok(Self {
            of_value,
            of_pair,
            standalone: config.accept_standalone_key.unwrap_or(true),
            types: Types::new(config.types.as_ref()),
            unquoted: String::new(),
        })
    }

    pub(crate) fn pairs(&mut self, text: &str, out: &mut Writer<'_>) -> Result<(), Stop> {
        let mut at = 0;
        loop {
            at = self.pair(text, skip_space(text, at), out)?;
            if at < text.len() && !text[at..].starts_with(&self.of_pair) {
                return Err(Stop::new(at, format!("`{}` or the end after a value", self.of_pair)));
            }
            at = text.len().min(at + self.of_pair.len());
            // A text may end with a delimiter.
            if skip_space(text, at) == text.len() {
                return Ok(());
            }
        }
    }

    /// Writes the pair at `at`, and returns the position after it.
    fn pair(&mut self, text: &str, at: usize, out: &mut Writer<'_>) -> Result<usize, Stop> {
        let rest = &text[at..];
        let end = if rest.starts_with(['"', '\'']) {
            let end = unquote(text, at, &mut self.unquoted)?;
            out.key(&self.unquoted);
            self.skip_to_delimiter(text, end)
        } else {
            let pair = rest.find(&*self.of_pair).unwrap_or(rest.len());
            // A search beyond the pair would read the remaining text again for each key that stands alone.
            let within = rest.len().min(pair + self.of_value.len() - 1);
            let of_value = self.of_value.as_bytes();
            let key = memmem::find(&rest.as_bytes()[..within], of_value).unwrap_or(pair);
            let name = rest[..key].trim_ascii();
            if name.is_empty() {
                return Err(Stop::new(at, "a key"));
            }
            self.unquoted.clear();
            self.unquoted.push_str(name);
            out.key(name);
            at + key
        };
        let of = self.types.of(&self.unquoted);
        let Some(rest) = text[end..].strip_prefix(&*self.of_value) else {
            if self.standalone {
                out.bool(true);
                return Ok(end);
            }
            return Err(Stop::new(end, format!("`{}` after the key", self.of_value)));
        };
        // White space around a value is not part of it, unless it is the delimiter, which ends the value.
        let len = rest.find(&*self.of_pair).unwrap_or(rest.len());
        let value = rest[..len].trim_ascii_start();
        let end = text.len() - rest.len() + len;
        let at = end - value.len();
        if value.starts_with(['"', '\'']) {
            let end = unquote(text, at, &mut self.unquoted)?;
            of.write(&self.unquoted, at, out)?;
            return Ok(self.skip_to_delimiter(text, end));
        }
        of.write(value.trim_ascii_end(), at, out)?;
        Ok(end)
    }

    /// Returns the position after white space that begins at `at` and is not a delimiter.
    fn skip_to_delimiter(&self, text: &str, at: usize) -> usize {
        let is_delimiter =
            |rest: &str| rest.starts_with(&self.of_pair) || rest.starts_with(&self.of_value);
        let rest = &text[at..];
        let space = rest.len() - rest.trim_ascii_start().len();
        at + (0..space).find(|skipped| is_delimiter(&rest[*skipped..])).unwrap_or(space)
    }
}

/// Returns the position after white space that begins at `at`.
fn skip_space(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_ascii_start().len()
}

/// Copies the quoted text that begins at `at` to `unquoted`, without quotes and escapes. Returns the position after it.
fn unquote(text: &str, at: usize, unquoted: &mut String) -> Result<usize, Stop> {
    unquoted.clear();
    let quote = text.as_bytes()[at];
    let (mut from, mut next) = (at + 1, at + 1);
    loop {
        let Some(found) = memchr::memchr2(quote, b'\\', &text.as_bytes()[next..]) else {
            let quote = char::from(quote);
            return Err(Stop::new(text.len(), format!("`{quote}` at the end of a quoted text")));
        };
        next += found;
        unquoted.push_str(&text[from..next]);
        if text.as_bytes()[next] == quote {
            return Ok(next + 1);
        }
        let escaped = match text.as_bytes().get(next + 1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(other @ (b'"' | b'\'' | b'\\')) => char::from(*other),
            // A backslash before any other character is an ordinary character.
            _ => {
                from = next;
                next += 1;
                continue;
            }
        };
        unquoted.push(escaped);
        next += 2;
        from = next;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{parsed, parser};

    #[test]
    fn pairs_become_fields() {
        let mut parser = parser(serde_json::json!({ "format": "key_value" }));
        for (text, expected) in [
            ("a=1 b=two", r#"{"a":"1","b":"two"}"#),
            ("  a=1   b=  \n", r#"{"a":"1","b":""}"#),
            (
                r#"msg="no \"space\" left\n" at='x y'"#,
                r#"{"msg":"no \"space\" left\n","at":"x y"}"#,
            ),
            (r#"path=C:\new q="C:\xew""#, r#"{"path":"C:\\new","q":"C:\\xew"}"#),
            ("debug level=warn", r#"{"debug":true,"level":"warn"}"#),
            ("a=1 a=2 b=3", r#"{"a":"2","b":"3"}"#),
            (r#""odd key"=1"#, r#"{"odd key":"1"}"#),
            ("url=http://x/?q=1", r#"{"url":"http://x/?q=1"}"#),
            ("k\u{e4}y=\u{fc}", "{\"k\u{e4}y\":\"\u{fc}\"}"),
        ] {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", "expected a key at byte 0, found the end of the text"),
            ("=1", "expected a key at byte 0, found \"=1\""),
            (
                r#"a="x"#,
                "expected `\"` at the end of a quoted text at byte 4, found the end of the text",
            ),
            (r#"a="x"y"#, "expected ` ` or the end after a value at byte 5, found \"y\""),
        ] {
            assert_eq!(parsed(&mut parser, text).unwrap_err(), expected, "{text}");
        }
    }

    /// A search for the next `=` from each key would take minutes.
    #[test]
    fn long_text_of_standalone_keys_takes_linear_time() {
        let mut parser = parser(serde_json::json!({ "format": "key_value" }));
        for (end, expected) in [
            ("", r#"{"a":true}"#),
            ("b=1", r#"{"a":true,"b":"1"}"#),
            ("b=\"x y\"", r#"{"a":true,"b":"x y"}"#),
        ] {
            let text = "a ".repeat(200_000) + end;
            assert_eq!(parsed(&mut parser, &text).as_deref(), Ok(expected), "{end}");
        }
    }

    #[test]
    fn delimiter_of_value_may_overlap_or_contain_the_other() {
        for (of_value, of_pair, text, expected) in [
            ("= ", " ", "a= b", r#"{"a":"b"}"#),
            ("=,", ",", "a,b=,c,d", r#"{"a":true,"b":"c","d":true}"#),
            (",=", ",", "a,=b", r#"{"a":"b"}"#),
            ("\u{e4}\u{e4}", "\u{e4}", "k\u{e4}\u{e4}v\u{e4}x", r#"{"k":"v","x":true}"#),
        ] {
            let config = serde_json::json!({
                "format": "key_value", "key_value_delimiter": of_value, "field_delimiter": of_pair,
            });
            assert_eq!(parsed(&mut parser(config), text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn white_space_around_keys_and_values_is_removed() {
        let values = [
            ("a = 1", r#""a":"1""#),
            (" b\u{20} =  x y ", r#""b":"x y""#),
            (r#" c = "x = 'y' " "#, r#""c":"x = 'y' ""#),
            (r#""d e" = 'z'"#, r#""d e":"z""#),
            ("f =", r#""f":"""#),
            ("g", r#""g":true"#),
            (r#" "h i" "#, r#""h i":true"#),
        ];
        for (pair, between) in [
            ("\n", "\n"),
            ("\n", "\r\n\n"),
            ("\r\n", "\r\n"),
            ("\t", "\t"),
            ("\t", "\t\t"),
            (",", " , "),
            (";\n", ";\n"),
            (" | ", " | "),
            ("||", " ||\n"),
        ] {
            let mut parser =
                parser(serde_json::json!({ "format": "key_value", "field_delimiter": pair }));
            let (texts, expected): (Vec<_>, Vec<_>) = values.into_iter().unzip();
            let expected = format!("{{{}}}", expected.join(","));
            for end in ["", between, "\n"] {
                let text = texts.join(between) + end;
                assert_eq!(parsed(&mut parser, &text).as_ref(), Ok(&expected), "{text:?}");
            }
        }
        // The delimiter ends a value even if it is white space.
        let mut parser = parser(serde_json::json!({ "format": "key_value" }));
        for (text, expected) in
            [("a= 1", r#"{"a":"","1":true}"#), ("a=\t\"x y\"\n b=2\r\n", r#"{"a":"x y","b":"2"}"#)]
        {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn delimiters_types_and_standalone_keys_are_configurable() {
        let mut parser = parser(serde_json::json!({
            "format": "key_value", "key_value_delimiter": ":", "field_delimiter": ",",
            "accept_standalone_key": false, "types": { "n": "integer", "f": "float" },
        }));
        for (text, expected) in [
            ("n: 7, f:1.5 , s : x y,", r#"{"n":7,"f":1.5,"s":"x y"}"#),
            ("n:\"8\" ,s:\"a,b\"", r#"{"n":8,"s":"a,b"}"#),
        ] {
            assert_eq!(parsed(&mut parser, text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("n:x", "expected an integer of at most 64 bits at byte 2, found \"x\""),
            ("s:1,n", "expected `:` after the key at byte 5, found the end of the text"),
        ] {
            assert_eq!(parsed(&mut parser, text).unwrap_err(), expected, "{text}");
        }
    }
}
