//! The tree.

use std::collections::HashMap;

use serde_json::{Number, Value};

use super::super::{diagnostic::Report, source::Span, suggest::quote};

/// A value in a YAML file, and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) data: Data,
    /// For a text whose characters stand one by one in a single line of the file: how many
    /// characters precede the first one (a quotation mark). `None` where they do not.
    pub(crate) inline: Option<usize>,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    /// In the file's order, with repeated keys.
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Span,
    pub(crate) value: Node,
}

impl Node {
    /// What stands there, in the words of a message: "the integer 5", "a map".
    pub(crate) fn describe(&self) -> String {
        match &self.data {
            Data::Null => "nothing".to_owned(),
            Data::Bool(value) => format!("the boolean {value}"),
            Data::Number(value) if value.is_f64() => format!("the number {value}"),
            Data::Number(value) => format!("the integer {value}"),
            Data::Text(value) if value.is_empty() => "an empty text".to_owned(),
            Data::Text(value) => format!("the text {}", quote(value)),
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a map".to_owned(),
        }
    }

    /// The same value without places. Of repeated keys the last one stands.
    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(value) => Value::String(value.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }

    /// The entry of that key, if this is a map that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Reports every key that stands twice in one map, here and in all that is below.
    pub(crate) fn report_repeated_keys(&self, report: &mut Report) {
        match &self.data {
            Data::List(items) => {
                for item in items {
                    item.report_repeated_keys(report);
                }
            }
            Data::Map(entries) => {
                report_repeated_keys_of(entries, report, |key| {
                    format!("key {} stands twice in one map", quote(key))
                });
                for entry in entries {
                    entry.value.report_repeated_keys(report);
                }
            }
            _ => {}
        }
    }
}

/// Reports every key that stands twice in one map, with both places.
pub(crate) fn report_repeated_keys_of(
    entries: &[Entry],
    report: &mut Report,
    message: impl Fn(&str) -> String,
) {
    let mut first: HashMap<&str, Span> = HashMap::new();
    for entry in entries {
        match first.get(entry.key.as_str()) {
            Some(earlier) => report.push(
                report
                    .error(entry.at, message(&entry.key))
                    .note(*earlier, "it stands here first")
                    .help("remove or rename one of them"),
            ),
            None => {
                first.insert(&entry.key, entry.at);
            }
        }
    }
}
