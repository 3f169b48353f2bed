//! Values that flow files take from outside, by `${env:…}` and `${file:…}`, and that no message may have.
//!
//! Anything can quote a configuration: a validator, a constructor, a component that runs, a library that
//! it uses. So every value is kept here when it is put into a flow, and whatever leaves for people goes
//! through [`text`]. They are kept for the whole process, as its log is.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{PoisonError, RwLock},
};

use serde_json::{Map, Value};

/// What stands in place of a value.
pub const REDACTED: &str = "[redacted]";

/// Shorter values are in too many words to be looked for, in bytes.
const SHORTEST: usize = 4;

/// How much of a value is recognised where a message has cut it, in bytes.
const BEGINNING: usize = 8;

static KEPT: RwLock<Option<Kept>> = RwLock::new(None);

/// Keeps a value out of all messages from now on, and each of its lines.
pub(crate) fn keep(value: &str) {
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    kept.get_or_insert_default().add(value);
}

/// Forgets all values: nothing that has them is left, and no message of it is to come.
pub fn forget() {
    *KEPT.write().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The text without any value that is kept out of messages.
pub fn text(text: &str) -> Cow<'_, str> {
    let kept = KEPT.read().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some(kept) => kept.redact(text),
        None => Cow::Borrowed(text),
    }
}

/// The same for a text that is no longer needed as it is.
pub fn owned(text: String) -> String {
    match self::text(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(redacted) => redacted,
    }
}

/// The same for a line of the log that is a JSON object: its own keys stay, and what the log itself says.
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

/// The keys of log lines whose values are the log's own.
const OF_LOG: [&str; 3] = ["timestamp", "level", "target"];

/// Whether there was anything.
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

/// The values, in the forms in which messages may have them.
#[derive(Default)]
struct Kept {
    by_start: HashMap<[u8; SHORTEST], BTreeSet<Box<str>>>,
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
        // No secret, and in too many messages.
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
        // How far the values go that were found so far.
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

    /// How long the longest value is that stands at a place of a text.
    fn length_at(&self, text: &str, at: usize) -> Option<usize> {
        let (before, text) = text.split_at(at);
        let alike = self.by_start.get(text.as_bytes().first_chunk()?)?;
        alike.iter().filter_map(|value| shown(value, before, text)).max()
    }
}

/// How much of a value a text starts with, if that is all of it or was cut there. Digits are not a part of
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
    let is_cut = length >= BEGINNING && (rest.starts_with('…') || rest.starts_with("..."));
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
    fn a_file_of_many_lines_that_begin_alike_is_kept() {
        let lines: Vec<String> = (0..50_000).map(|line| format!("line {line}")).collect();
        assert_eq!(redact(&[&lines.join("\n")], "in line 49999"), "in [redacted]");
    }

    #[test]
    fn values_of_three_bytes_and_fewer_stay() {
        assert_eq!(redact(&["abc", "", "1"], "abc 1"), "abc 1");
    }

    #[test]
    fn digits_are_not_looked_for_in_longer_numbers() {
        assert_eq!(
            redact(&["1000"], "1000, 10003, a1000b, 21000"),
            "[redacted], 10003, a[redacted]b, 21000"
        );
    }

    #[test]
    fn of_values_that_overlap_nothing_is_left() {
        assert_eq!(redact(&["hunter22", "22abc"], "(hunter22abc)"), "([redacted])");
        assert_eq!(redact(&["hunter", "hunter22"], "(hunter22)"), "([redacted])");
        assert_eq!(redact(&["hunter22", "ntxx"], "hunter22hunter22"), "[redacted][redacted]");
    }

    #[test]
    fn a_value_is_recognised_where_it_is_escaped() {
        let value = "say \"hi\"\tnow";
        assert_eq!(redact(&[value], &format!("{value:?}")), "\"[redacted]\"");
        assert_eq!(redact(&[value], &serde_json::json!([value]).to_string()), "[\"[redacted]\"]");
    }

    #[test]
    fn each_line_of_a_value_is_one() {
        let value = "first line\n  second line\r\n}\n";
        assert_eq!(redact(&[value], "near `second line`"), "near `[redacted]`");
        assert_eq!(redact(&[value], &format!("{value:?}")), "\"[redacted]\"");
    }

    #[test]
    fn a_value_is_recognised_where_it_is_cut() {
        let value = "a-very-long-value";
        assert_eq!(redact(&[value], "`a-very-lo…`"), "`[redacted]…`");
        assert_eq!(redact(&[value], "a-very-lo..."), "[redacted]...");
        assert_eq!(redact(&[value], "a-very…"), "a-very…");
    }

    #[test]
    fn keys_of_json_stay_and_so_does_what_the_log_says() {
        keep("redacted-in-json");
        let line =
            r#"{"level":"redacted-in-json","redacted-in-json":["is redacted-in-json"],"n":1}"#;
        let expected = r#"{"level":"redacted-in-json","n":1,"redacted-in-json":["is [redacted]"]}"#;
        assert_eq!(log_line(line), expected);
        assert_eq!(log_line("{\"other\" : 1}"), "{\"other\" : 1}");
        assert_eq!(log_line("no redacted-in-json"), "no [redacted]");
    }
}
