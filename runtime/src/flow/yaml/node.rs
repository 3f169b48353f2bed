//! The tree.

use std::{collections::HashMap, fmt, sync::Arc};

use serde_json::{Number, Value};

use super::super::{diagnostic::Report, source::Span, suggest::quote};

/// A value in a YAML file, and its place.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) data: Data,
    /// For a text whose characters stand one by one in a single line of the file: how many
    /// characters precede the first one (a quotation mark). `None` where they do not.
    pub(crate) inline: Option<usize>,
    /// The references in a text, as they are written: the value must not be shown.
    pub(crate) references: Option<Arc<str>>,
    /// The values of variables in it, but for defaults of the file. They are secret if the node is.
    pub(crate) variables: Option<Arc<[String]>>,
}

/// With references in place of their values.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.references {
            Some(references) => f.write_str(references),
            None => self.data.fmt(f),
        }
    }
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    /// The value of a reference that has none; why has been reported.
    Unknown,
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
        if let Some(references) = &self.references {
            let kind = match &self.data {
                Data::Null => "nothing",
                Data::Bool(_) => "a boolean",
                Data::Number(value) if value.is_f64() => "a number",
                Data::Number(_) => "an integer",
                Data::Text(value) if value.is_empty() => "an empty text",
                Data::Text(_) => "a text",
                Data::Unknown | Data::List(_) | Data::Map(_) => "a value",
            };
            return format!("{kind} from {references}");
        }
        match &self.data {
            Data::Unknown => "a value that is not known".to_owned(),
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
            Data::Null | Data::Unknown => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(value) => Value::String(value.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }

    /// Adds the places of all scalars of this kind, as JSON pointers (RFC 6901); `at` is that of this one.
    pub(crate) fn pointers(
        &self,
        is_meant: &dyn Fn(&Self) -> bool,
        at: &str,
        all: &mut Vec<String>,
    ) {
        if is_meant(self) {
            all.push(at.to_owned());
        }
        match &self.data {
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.pointers(is_meant, &format!("{at}/{index}"), all);
                }
            }
            Data::Map(entries) => {
                for Entry { key, value, .. } in entries {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    value.pointers(is_meant, &format!("{at}/{key}"), all);
                }
            }
            _ => {}
        }
    }

    /// Calls `take` for each scalar: this one, or all below.
    pub(crate) fn scalars(&self, take: &mut impl FnMut(&Self)) {
        match &self.data {
            Data::List(items) => items.iter().for_each(|item| item.scalars(take)),
            Data::Map(entries) => entries.iter().for_each(|entry| entry.value.scalars(take)),
            _ => take(self),
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
