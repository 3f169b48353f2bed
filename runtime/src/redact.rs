//! Secret values that flow files take from `${env:…}` and `${file:…}`, and that no message may contain.
//!
//! Any code can quote a configuration: a validator, a constructor, a running component, or a library that it uses.
//! Therefore each value is registered here when it is inserted into a flow, and all text for users passes through
//! [`text`]. The values are registered for the whole process, because the process has a single log.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{PoisonError, RwLock},
};

use serde_json::{Map, Value};

/// Text that replaces a secret value.
pub const REDACTED: &str = "[redacted]";

/// Minimum length of a value that is redacted, in bytes. Shorter values would occur by chance in too many words.
const MIN_LENGTH: usize = 4;

/// If a message was truncated within a secret value, the minimum length of the visible beginning that is recognised, in
/// bytes.
const MIN_TRUNCATED: usize = 8;

static KEPT: RwLock<Option<Kept>> = RwLock::new(None);

/// Keeps a value and each of its lines out of all messages from now on.
pub(crate) fn keep(value: &str) {
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    kept.get_or_insert_default().add(value);
}

/// Forgets all values. Call this only once no message can follow that contains one of these values.
pub fn forget() {
    *KEPT.write().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns the text with all registered values redacted.
pub fn text(text: &str) -> Cow<'_, str> {
    let kept = KEPT.read().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some(kept) => kept.redact(text),
        None => Cow::Borrowed(text),
    }
}

/// Redacts a text whose original form is no longer needed.
pub fn owned(text: String) -> String {
    match self::text(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(redacted) => redacted,
    }
}

/// Redacts a line of the log that is a JSON object. The keys of the object and the values that the log itself sets stay
/// unchanged.
pub fn log_line(json: &str) -> Cow<'_, str> {
    if KEPT.read().unwrap_or_else(PoisonError::into_inner).is_none() {
        return Cow::Borrowed(json);
    }
    let Ok(mut line) = serde_json::from_str::<Map<String, Value>>(json) else { return text(json) };
    let of_event = line.iter_mut().filter(|(key, _)| !OF_LOG.contains(&key.as_str()));
    if redact_all(of_event.map(|(_, value)| value)) {
        Cow::Owned(Value::from(line).to_string())
    } else {
        Cow::Borrowed(json)
    }
}

/// Keys whose values the log itself sets in a line.
const OF_LOG: [&str; 3] = ["timestamp", "level", "target"];

/// Redacts a JSON value. Returns whether anything was replaced.
fn redact_values(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            let mut found = redact_all(map.values_mut());
            if map.keys().any(|key| matches!(text(key), Cow::Owned(_))) {
                let entries = std::mem::take(map).into_iter();
                *map = entries.map(|(key, value)| (owned(key), value)).collect();
                found = true;
            }
            found
        }
        Value::Array(items) => redact_all(items.iter_mut()),
        Value::Null | Value::Bool(_) => false,
        Value::String(_) | Value::Number(_) => {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match text(&shown) {
                Cow::Borrowed(_) => false,
                Cow::Owned(redacted) => {
                    *value = Value::String(redacted);
                    true
                }
            }
        }
    }
}

fn redact_all<'v>(values: impl Iterator<Item = &'v mut Value>) -> bool {
    values.fold(false, |found, value| redact_values(value) | found)
}

/// Registered values in all forms in which messages may contain them.
#[derive(Default)]
struct Kept {
    by_start: HashMap<[u8; MIN_LENGTH], BTreeSet<Box<str>>>,
}

impl Kept {
    fn add(&mut self, value: &str) {
        let lines = value.lines().map(str::trim);
        for part in [value, value.trim()].into_iter().chain(lines) {
            let debug = format!("{part:?}");
            let json = Value::from(part).to_string();
            for form in [part, &debug[1..debug.len() - 1], &json[1..json.len() - 1]] {
                self.add_form(form);
            }
        }
    }

    fn add_form(&mut self, form: &str) {
        // These words are not secret, and too many messages contain them.
        if ["true", "false", "null"].contains(&form) {
            return;
        }
        let Some(start) = form.as_bytes().first_chunk() else { return };
        let alike = self.by_start.entry(*start).or_default();
        if !alike.contains(form) {
            alike.insert(form.into());
        }
    }

    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut redacted = String::new();
        // End of the range that is covered by the values found so far.
        let mut covered = 0;
        for (at, _) in text.char_indices() {
            let Some(length) = self.length_at(text, at) else { continue };
            if at >= covered {
                redacted.push_str(&text[covered..at]);
                redacted.push_str(REDACTED);
            }
            covered = covered.max(at + length);
        }
        if covered == 0 {
            return Cow::Borrowed(text);
        }
        redacted.push_str(&text[covered..]);
        Cow::Owned(redacted)
    }

    /// Returns the length in bytes of the longest secret value that starts at the byte `at` of a text.
    fn length_at(&self, text: &str, at: usize) -> Option<usize> {
        let (before, text) = text.split_at(at);
        let alike = self.by_start.get(text.as_bytes().first_chunk()?)?;
        alike.iter().filter_map(|value| shown(value, before, text)).max()
    }
}

/// Returns the number of bytes at the start of `text` that show `value`: the whole value, or its beginning if the text
/// is truncated there. Returns `None` if `text` does not start with the value. A number is not recognised as a part of
/// a longer number.
fn shown(value: &str, before: &str, text: &str) -> Option<usize> {
    let alike = value.chars().zip(text.chars()).take_while(|(one, other)| one == other);
    let length = alike.map(|(c, _)| c.len_utf8()).sum();
    let rest = &text[length..];
    if value.bytes().all(|byte| byte.is_ascii_digit())
        && (before.ends_with(is_digit) || rest.starts_with(is_digit))
    {
        return None;
    }
    let is_cut = length >= MIN_TRUNCATED && (rest.starts_with('…') || rest.starts_with("..."));
    (length == value.len() || is_cut).then_some(length)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::{Kept, keep, log_line};

    fn redact(values: &[&str], text: &str) -> String {
        let mut kept = Kept::default();
        values.iter().for_each(|value| kept.add(value));
        kept.redact(text).into_owned()
    }

    #[test]
    fn every_occurrence_of_a_value_is_replaced() {
        let said = "hunter2: expected u64, found \"hunter2\"";
        assert_eq!(redact(&["hunter2"], said), "[redacted]: expected u64, found \"[redacted]\"");
        assert_eq!(redact(&["hunter2"], "hunter"), "hunter");
        assert_eq!(redact(&["pass"], "a pass"), "a [redacted]");
        assert_eq!(redact(&["säcret"], "ä säcret ä"), "ä [redacted] ä");
    }

    #[test]
    fn file_of_many_similar_lines_is_redacted() {
        let lines: Vec<String> = (0..50_000).map(|line| format!("line {line}")).collect();
        assert_eq!(redact(&[&lines.join("\n")], "in line 49999"), "in [redacted]");
    }

    #[test]
    fn values_of_three_bytes_or_fewer_are_not_redacted() {
        assert_eq!(redact(&["abc", "", "1"], "abc 1"), "abc 1");
    }

    #[test]
    fn numbers_are_not_redacted_within_longer_numbers() {
        assert_eq!(
            redact(&["1000"], "1000, 10003, a1000b, 21000"),
            "[redacted], 10003, a[redacted]b, 21000"
        );
    }

    #[test]
    fn overlapping_values_are_redacted_completely() {
        assert_eq!(redact(&["hunter22", "22abc"], "(hunter22abc)"), "([redacted])");
        assert_eq!(redact(&["hunter", "hunter22"], "(hunter22)"), "([redacted])");
        assert_eq!(redact(&["hunter22", "ntxx"], "hunter22hunter22"), "[redacted][redacted]");
    }

    #[test]
    fn escaped_value_is_redacted() {
        let value = "say \"hi\"\tnow";
        assert_eq!(redact(&[value], &format!("{value:?}")), "\"[redacted]\"");
        assert_eq!(redact(&[value], &serde_json::json!([value]).to_string()), "[\"[redacted]\"]");
    }

    #[test]
    fn each_line_of_a_value_is_redacted() {
        let value = "first line\n  second line\r\n}\n";
        assert_eq!(redact(&[value], "near `second line`"), "near `[redacted]`");
        assert_eq!(redact(&[value], &format!("{value:?}")), "\"[redacted]\"");
    }

    #[test]
    fn truncated_value_is_redacted() {
        let value = "a-very-long-value";
        assert_eq!(redact(&[value], "`a-very-lo…`"), "`[redacted]…`");
        assert_eq!(redact(&[value], "a-very-lo..."), "[redacted]...");
        assert_eq!(redact(&[value], "a-very…"), "a-very…");
    }

    #[test]
    fn keys_of_json_and_fields_of_log_are_not_redacted() {
        keep("redacted-in-json");
        let line =
            r#"{"level":"redacted-in-json","redacted-in-json":["is redacted-in-json"],"n":1}"#;
        let expected = r#"{"level":"redacted-in-json","n":1,"redacted-in-json":["is [redacted]"]}"#;
        assert_eq!(log_line(line), expected);
        assert_eq!(log_line("{\"other\" : 1}"), "{\"other\" : 1}");
        assert_eq!(log_line("no redacted-in-json"), "no [redacted]");
    }
}
