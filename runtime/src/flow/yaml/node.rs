//! The nodes of the tree.

use std::{collections::HashMap, fmt, path::Path, sync::Arc};

use serde_json::{Number, Value};
use tremor_pdk::Result;

use super::super::{diagnostic::Report, source::Span, suggest::quote};

/// A value in a YAML file, with its location.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) data: Data,
    /// Number of characters (0, or 1 for a quotation mark) before the first character of a text. `None` unless all
    /// characters of the text appear unchanged on a single line of the file.
    pub(crate) inline: Option<usize>,
    /// References in a text, as they are written in the file. If this is set, messages must not contain the value.
    pub(crate) references: Option<Arc<str>>,
    /// Values of the variables in the text, except defaults, which the flow file itself contains. They are secret if
    /// the node is secret.
    pub(crate) variables: Option<Arc<[String]>>,
    /// The scalar as it is written in the file, if it refers to the contents of files.
    pub(crate) written: Option<Arc<Written>>,
}

/// A scalar that refers to the contents of files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) text: Box<str>,
    /// `true` if the value is a text whatever its characters are.
    pub(crate) is_text: bool,
}

/// Displays the node with references instead of their values.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.references {
            Some(references) => f.write_str(references),
            None => self.data.fmt(f),
        }
    }
}

/// Value of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    /// A reference has no value. The reason has been reported.
    Unknown,
    Null,
    Bool(bool),
    Number(Number),
    /// The JSON text of a number that no 64-bit integer or float represents exactly.
    Exact(Box<str>),
    Text(String),
    List(Vec<Node>),
    /// Entries in the order of the file, repeated keys included.
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
    /// Returns a description of the value for messages, such as "the integer 5" or "a map".
    pub(crate) fn describe(&self) -> String {
        if let Some(references) = &self.references {
            let kind = match &self.data {
                Data::Null => "nothing",
                Data::Bool(_) => "a boolean",
                Data::Number(value) if value.is_f64() => "a number",
                Data::Exact(_) => "a number",
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
            Data::Exact(text) => format!("the number {text}"),
            Data::Number(value) => format!("the integer {value}"),
            Data::Text(value) if value.is_empty() => "an empty text".to_owned(),
            Data::Text(value) => format!("the text {}", quote(value)),
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a map".to_owned(),
        }
    }

    /// Returns whether a key on the path to the value at the location `at` fulfils `condition`.
    pub(crate) fn is_below(&self, at: Span, condition: &impl Fn(&str) -> bool) -> bool {
        self.has_value_at(at, false, condition)
    }

    fn has_value_at(&self, at: Span, fulfilled: bool, condition: &impl Fn(&str) -> bool) -> bool {
        match &self.data {
            Data::List(items) => items.iter().any(|it| it.has_value_at(at, fulfilled, condition)),
            Data::Map(entries) => entries.iter().any(|entry| {
                let fulfilled = fulfilled || condition(&entry.key);
                entry.value.has_value_at(at, fulfilled, condition)
            }),
            _ => fulfilled && self.at == at,
        }
    }

    /// Returns the value without locations, with the keys in the order of the file. If a key is repeated, its last
    /// value is used.
    pub(crate) fn to_value(&self) -> tremor_pdk::Value<'static> {
        use tremor_abi::value::{Number, Object, Value};
        match &self.data {
            Data::Null | Data::Unknown => Value::Null,
            Data::Bool(value) => Value::from(*value),
            Data::Number(value) => match (value.as_i64(), value.as_u64(), value.as_f64()) {
                (Some(integer), ..) => Value::from(integer),
                (_, Some(integer), _) => Value::from(integer),
                (.., float) => float.map_or(Value::Null, Value::from),
            },
            Data::Exact(text) => Number::new(text.to_string()).map_or(Value::Null, Value::Number),
            Data::Text(value) => Value::from(value.clone()),
            Data::List(items) => items.iter().map(Self::to_value).collect(),
            Data::Map(entries) => {
                let entries = entries.iter().map(|it| (it.key.clone(), it.value.to_value()));
                Value::Object(entries.collect::<Object<'static>>())
            }
        }
    }

    /// Returns the value like [`Node::to_value`] as JSON, in which a number that only its text represents is the nearest
    /// float, or a text if it exceeds the range of floats. The keys are sorted.
    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Null | Data::Unknown => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Exact(text) => {
                let nearest = text.parse().ok().and_then(Number::from_f64);
                nearest.map_or_else(|| Value::from(&**text), Value::Number)
            }
            Data::Text(value) => Value::String(value.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }

    /// Returns whether a scalar refers to the contents of files.
    pub(crate) fn has_files(&self) -> bool {
        let mut has_files = false;
        self.scalars(&mut |scalar| has_files |= scalar.written.is_some());
        has_files
    }

    /// Replaces the values in `value`, the value of this node, that refer to the contents of files: by the contents that
    /// the files have now. `folder` is that of the flow file.
    ///
    /// # Errors
    /// Returns the reason why a file cannot be used.
    pub(crate) fn read_again(
        &self,
        folder: &Path,
        value: &mut tremor_pdk::Value<'static>,
    ) -> Result<()> {
        match &self.data {
            Data::List(items) => {
                let values = value.as_array_mut().into_iter().flat_map(|values| values.iter_mut());
                items
                    .iter()
                    .zip(values)
                    .try_for_each(|(item, value)| item.read_again(folder, value))
            }
            Data::Map(entries) => entries.iter().try_for_each(|entry| {
                let value = value.get_mut(&entry.key);
                value.map_or(Ok(()), |value| entry.value.read_again(folder, value))
            }),
            _ => {
                if let Some(written) = &self.written {
                    let data = written.read_again(folder)?;
                    *value = Self { data, ..self.clone() }.to_value();
                }
                Ok(())
            }
        }
    }

    /// Adds the JSON pointers (RFC 6901) of the nodes for which `is_meant` returns `true`, among this node and all
    /// nodes below it. `at` is the pointer of this node.
    pub(crate) fn pointers(
        &self,
        is_wanted: &dyn Fn(&Self) -> bool,
        at: &str,
        all: &mut Vec<String>,
    ) {
        if is_wanted(self) {
            all.push(at.to_owned());
        }
        match &self.data {
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.pointers(is_wanted, &format!("{at}/{index}"), all);
                }
            }
            Data::Map(entries) => {
                for Entry { key, value, .. } in entries {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    value.pointers(is_wanted, &format!("{at}/{key}"), all);
                }
            }
            _ => {}
        }
    }

    /// Calls `take` for each scalar: this node, or all scalars below it.
    pub(crate) fn scalars(&self, take: &mut impl FnMut(&Self)) {
        match &self.data {
            Data::List(items) => items.iter().for_each(|item| item.scalars(take)),
            Data::Map(entries) => entries.iter().for_each(|entry| entry.value.scalars(take)),
            _ => take(self),
        }
    }

    /// Returns the entry of a key, if this node is a map that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Reports every repeated key in this node and all nodes below it.
    pub(crate) fn report_repeated_keys(&self, report: &mut Report) {
        match &self.data {
            Data::List(items) => {
                for item in items {
                    item.report_repeated_keys(report);
                }
            }
            Data::Map(entries) => {
                report_repeated_keys_of(entries, report, |key| {
                    format!("key {} appears twice in one map", quote(key))
                });
                for entry in entries {
                    entry.value.report_repeated_keys(report);
                }
            }
            _ => {}
        }
    }
}

/// Reports every repeated key of a map, with both locations.
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
                    .note(*earlier, "it appears here first")
                    .help("remove or rename one of them"),
            ),
            None => {
                first.insert(&entry.key, entry.at);
            }
        }
    }
}
