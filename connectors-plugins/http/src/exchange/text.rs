//! Texts of requests that depend on events.

use std::fmt;

use tremor_pdk::{
    Error, ErrorPolicy, EventRef, Result,
    template::{NoText, Template, TimeCache},
};

use crate::Escape;

/// Maximum length of the text before or after an event, at the start or at the end of a body, in bytes.
pub(crate) const MOST_TEXT: usize = 64 << 10;

/// A template of the configuration, whose texts are parts of requests.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// The key, and the template if errors may show it.
    name: String,
    template: Template,
    /// Maximum length of the text, in bytes.
    most: usize,
}

impl Text {
    /// Creates a text for the key `key` of the configuration. Errors show `shown`, which is the template or a part of
    /// it.
    pub(crate) fn new(key: &str, shown: Option<&str>, template: Template, most: usize) -> Self {
        let shown = shown.map_or_else(String::new, |shown| format!(" `{}`", shown.escape_debug()));
        Self { name: format!("`{key}`{shown}"), template, most }
    }

    /// Appends the text for an event to `out`. `escape` replaces a value that was appended to `out` at the given
    /// offset. After an error, `out` is unchanged.
    ///
    /// # Errors
    /// An error of the kind bad data, which makes the event a dead letter: a field has neither text nor a default, the
    /// text is too long, or `escape` returned the reason for which a value cannot be a part of it.
    pub(crate) fn render(
        &self,
        event: EventRef<'_>,
        out: &mut String,
        cache: &mut TimeCache,
        escape: impl FnMut(&mut String, usize) -> Result<(), &'static str>,
    ) -> Result<()> {
        match self.try_render(event, out, cache, escape)? {
            None => Ok(()),
            Some(missing) => Err(self.unrendered(format_args!(
                "{missing}; set the field, or add a default as in `{{FIELD:-DEFAULT}}`"
            ))),
        }
    }

    /// Appends the text for an event to `out`. Returns `false` if a field has neither text nor a default; then `out` is
    /// unchanged, as after an error.
    ///
    /// # Errors
    /// An error of the kind bad data, which makes the event a dead letter: the text is too long.
    pub(crate) fn render_if_present(
        &self,
        event: EventRef<'_>,
        out: &mut String,
        cache: &mut TimeCache,
    ) -> Result<bool> {
        Ok(self.try_render(event, out, cache, |_, _| Ok(()))?.is_none())
    }

    /// Appends the text for an event to `out`. Returns the field that has neither text nor a default, if there is one;
    /// then `out` is unchanged, as after an error.
    fn try_render(
        &self,
        event: EventRef<'_>,
        out: &mut String,
        cache: &mut TimeCache,
        mut escape: impl FnMut(&mut String, usize) -> Result<(), &'static str>,
    ) -> Result<Option<NoText<'_>>> {
        let (start, most) = (out.len(), self.most);
        let (mut is_long, mut problem) = (false, None);
        let rendered = self.template.render_escaped(event, out, cache, |out, at| {
            // Do not escape a long value, because that would make it longer.
            is_long |= out.len() - start > most;
            if is_long || problem.is_some() {
                out.truncate(at);
            } else {
                problem = escape(out, at).err();
            }
        });
        if let Err(missing) = rendered {
            out.truncate(start);
            return Ok(Some(missing));
        }
        if is_long || out.len() - start > most {
            out.truncate(start);
            let problem = format_args!("its text for the event is longer than {most} bytes");
            return Err(self.unrendered(problem));
        }
        if let Some(problem) = problem {
            out.truncate(start);
            return Err(self.unrendered(format_args!("{problem}")));
        }
        Ok(None)
    }

    #[cold]
    fn unrendered(&self, problem: fmt::Arguments<'_>) -> Error {
        unusable(format_args!("cannot render {}: {problem}", self.name))
    }

    /// Returns an error about the text of an event.
    pub(crate) fn error(&self, problem: &str) -> Error {
        unusable(format_args!("cannot use {}: {problem}", self.name))
    }
}

/// The way in which values become parts of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaping {
    escape: Escape,
    is_lines: bool,
}

impl Escaping {
    /// Creates the escaping. If `is_lines` is set, a line feed ends an event in a body.
    pub(crate) fn new(escape: Escape, is_lines: bool) -> Self {
        Self { escape, is_lines }
    }

    /// Escapes the value at the end of `out`, from the offset `at`.
    ///
    /// # Errors
    /// Returns the reason for which the value cannot be a part of a body.
    pub(crate) fn apply(self, out: &mut String, at: usize) -> Result<(), &'static str> {
        match self.escape {
            Escape::Json => escape_json(out, at),
            Escape::None if self.is_lines && out[at..].contains('\n') => {
                return Err(
                    "a value contains a line feed, after which the server would read another message",
                );
            }
            Escape::None => {}
        }
        Ok(())
    }
}

/// Returns an error that makes an event a dead letter.
fn unusable(message: fmt::Arguments<'_>) -> Error {
    Error::bad_data(message).with_policy(ErrorPolicy::DEAD_LETTER)
}

/// Percent-encodes the bytes of `out` from the offset `at` that are not
/// [unreserved](https://www.rfc-editor.org/rfc/rfc3986#section-2.3), so that they are a part of one segment of a path
/// or of one value of a query.
pub(crate) fn percent_encode(out: &mut String, at: usize) {
    encode(out, at, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
}

/// Percent-encodes the bytes of `out` from the offset `at` that a path with a query cannot contain, and `#`, behind
/// which a URL has no path and no query.
pub(crate) fn percent_encode_invalid(out: &mut String, at: usize) {
    let marks = b"-._~:/?[]@!$&'()*+,;=%{}";
    encode(out, at, |byte| byte.is_ascii_alphanumeric() || marks.contains(&byte));
}

fn encode(out: &mut String, at: usize, is_plain: impl Fn(u8) -> bool) {
    let Some(first) = out.as_bytes()[at..].iter().position(|byte| !is_plain(*byte)) else { return };
    // The bytes before are ASCII, so this is the start of a character.
    let encoded = out.split_off(at + first);
    for byte in encoded.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            let digit = |it: u8| char::from(b"0123456789ABCDEF"[usize::from(it)]);
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// Escapes the bytes of `out` from the offset `at` for a string in JSON.
pub(crate) fn escape_json(out: &mut String, at: usize) {
    if out.as_bytes()[at..].iter().all(|byte| *byte >= 0x20 && !b"\"\\".contains(byte)) {
        return;
    }
    let value = out.split_off(at);
    push_json(out, &value);
}

/// Appends a text, escaped for a string in JSON.
pub(crate) fn push_json(out: &mut String, text: &str) {
    let bytes = text.as_bytes();
    // The text before `from` was appended, and the one before `at` has nothing else to escape.
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at..].first_chunk().copied().map(first_escaped) {
            Some(Some(offset)) => at += offset,
            Some(None) => {
                at += WORD;
                continue;
            }
            None => {}
        }
        let byte = bytes[at];
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "\\u00",
            _ => {
                at += 1;
                continue;
            }
        };
        out.push_str(&text[from..at]);
        out.push_str(short);
        if short.len() > 2 {
            let digit = |it: u8| char::from(b"0123456789abcdef"[usize::from(it)]);
            out.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        at += 1;
        from = at;
    }
    out.push_str(&text[from..]);
}

/// Number of bytes that [`first_escaped`] examines together.
const WORD: usize = size_of::<u64>();

/// Returns the position of the first byte that a string of JSON has to escape.
fn first_escaped(bytes: [u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_le_bytes(bytes);
    // The highest bit of each byte of the word that is less than `limit`. Of the bits above the lowest one, some may be
    // set for bytes that are not less.
    let less = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS;
    let equal = |byte: u8| less(word ^ (ONES * u64::from(byte)), 1);
    let found = less(word, 0x20) | equal(b'"') | equal(b'\\');
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// Returns whether a path has a segment that refers to another folder: `.` or `..`, also percent-encoded.
pub(crate) fn has_dots(path: &str) -> bool {
    path.split('/').any(|segment| {
        // No longer segment is two points, each with three characters.
        let decoded =
            (segment.len() <= 6).then(|| segment.to_ascii_lowercase().replace("%2e", "."));
        decoded.is_some_and(|it| it == "." || it == "..")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{escape_json, has_dots, percent_encode, percent_encode_invalid, push_json};
    use tremor_pdk::net::percent_decode;

    fn after(prefix: &str, value: &str, escape: impl Fn(&mut String, usize)) -> String {
        let mut out = format!("{prefix}{value}");
        escape(&mut out, prefix.len());
        out.strip_prefix(prefix).unwrap().to_owned()
    }

    #[test]
    fn values_are_one_segment() {
        for (value, encoded) in [
            ("plain-._~09azAZ", "plain-._~09azAZ"),
            ("../x", "..%2Fx"),
            ("a/b", "a%2Fb"),
            ("?x=#&+ ;", "%3Fx%3D%23%26%2B%20%3B"),
            ("%2f%2E", "%252f%252E"),
            ("a\r\n\0", "a%0D%0A%00"),
            ("ä€", "%C3%A4%E2%82%AC"),
            ("", ""),
        ] {
            assert_eq!(after("/a b/", value, percent_encode), encoded);
        }
        let fixed = "/a b/%2F?x=[1]&y=\"ä#\\{";
        let encoded = "/a%20b/%2F?x=[1]&y=%22%C3%A4%23%5C{";
        assert_eq!(after("http://a", fixed, percent_encode_invalid), encoded);
    }

    #[test]
    fn segments_of_points_are_found() {
        for path in [".", "/..", "/../", "/a/./b", "/%2e", "/.%2E/x", "/%2E%2e"] {
            assert!(has_dots(path), "{path}");
        }
        for path in ["", "/", "/a", "/...", "/.a", "/%252e", "/a..", "//"] {
            assert!(!has_dots(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn pushed_text_is_a_string_of_json(text in "([a-z]{0,9}|[\\x00-\\x7f]|é|\\PC){0,20}") {
            let mut out = "\"".to_owned();
            push_json(&mut out, &text);
            out.push('"');
            prop_assert!(!out.bytes().any(|byte| byte < 0x20), "{out:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }

        #[test]
        fn encoded_value_is_plain_and_can_be_decoded(value in any::<String>()) {
            let encoded = after("ä/", &value, percent_encode);
            let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._~%".contains(it);
            prop_assert!(encoded.chars().all(is_plain), "{}", encoded);
            prop_assert_eq!(percent_decode(&encoded), Some(value));
            prop_assert_eq!(&after("", &encoded, percent_encode_invalid), &encoded);
        }

        #[test]
        fn escaped_value_is_a_string_of_json(value in any::<String>()) {
            let text = format!("\"{}\"", after("\"ä", &value, escape_json));
            prop_assert_eq!(serde_json::from_str::<String>(&text).ok(), Some(value));
            prop_assert!(!text.contains('\n'));
        }
    }
}
