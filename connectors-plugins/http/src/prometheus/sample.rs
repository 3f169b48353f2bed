//! Samples as events have them: the form that the codec `prometheus` reads and writes.

use std::ops::Range;

use tremor_pdk::{Error, Result, Shape, ValueRef};

use super::{
    family::{Kind, is_label_name, is_metric_name},
    number,
};

/// Name of the label that has the name of the metric.
pub(crate) const METRIC_NAME: &str = "__name__";

/// Maximum number of labels of a sample.
pub(crate) const MOST_LABELS: usize = 256;

/// Maximum length of the labels of a sample together, in bytes of names and values.
pub(crate) const MOST_LABEL_BYTES: usize = 64 << 10;

/// Maximum number of bytes of a value that an error quotes.
const SHOWN: usize = 100;

/// A sample of an event.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'v> {
    pub(crate) name: &'v str,
    /// Name of the family, which is `name` unless the event has another one.
    pub(crate) family: &'v str,
    pub(crate) kind: Kind,
    pub(crate) help: Option<&'v str>,
    labels: Option<ValueRef<'v>>,
    pub(crate) value: f64,
    /// Time in ns since the Unix epoch, if the event has one.
    pub(crate) timestamp_ns: Option<i64>,
    pub(crate) has_exemplar: bool,
}

impl<'v> Sample<'v> {
    /// Reads the value of an event.
    ///
    /// # Errors
    /// The value is not a sample. The error names the key and the expected value.
    pub(crate) fn read(value: ValueRef<'v>) -> Result<Self> {
        let Some(object) = value.as_object() else {
            return Err(wrong("a sample, which is an object with `name` and `value`", value));
        };
        let (mut name, mut family, mut kind) = (None, None, Kind::Untyped);
        let (mut help, mut labels, mut number) = (None, None, None);
        let (mut timestamp_ns, mut has_exemplar) = (None, false);
        for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            match key {
                "name" => name = Some(metric_name(key, value)?),
                "family" => family = Some(metric_name(key, value)?),
                "type" => {
                    let known = value.as_str().and_then(Kind::of);
                    kind = known.ok_or_else(|| wrong("the type of a metric as `type`", value))?;
                }
                "help" => {
                    let text = value.as_str().ok_or_else(|| wrong("text as `help`", value))?;
                    help = Some(text).filter(|text| !text.is_empty());
                }
                // The text format has no units.
                "unit" => {}
                "labels" => labels = Some(value),
                "value" => {
                    let expected = "a number, `NaN`, `+Inf`, `-Inf` or `StaleNaN` as `value`";
                    number = Some(number::value(value).ok_or_else(|| wrong(expected, value))?);
                }
                "timestamp" => {
                    let time = value.whole().and_then(|time| i64::try_from(time).ok());
                    let expected = "ns since the Unix epoch as `timestamp`";
                    timestamp_ns = Some(time.ok_or_else(|| wrong(expected, value))?);
                }
                "exemplar" => has_exemplar = true,
                other => {
                    let other = shown(other);
                    return Err(Error::bad_data(format_args!("unknown key `{other}` of a sample")));
                }
            }
        }
        let missing = |key: &str| Error::bad_data(format_args!("a sample needs the key `{key}`"));
        let name = name.ok_or_else(|| missing("name"))?;
        Ok(Self {
            name,
            family: family.unwrap_or(name),
            kind,
            help,
            labels,
            value: number.ok_or_else(|| missing("value"))?,
            timestamp_ns,
            has_exemplar,
        })
    }
}

fn metric_name<'v>(key: &str, value: ValueRef<'v>) -> Result<&'v str> {
    value.as_str().filter(|name| is_metric_name(name)).ok_or_else(|| {
        wrong(&format!("the name of a metric (letters, digits, `_` and `:`) as `{key}`"), value)
    })
}

/// The labels of a sample. One value is used for all samples of a batch, so that a sample allocates nothing.
#[derive(Default)]
pub(crate) struct Labels<'v> {
    labels: Vec<(&'v str, Text<'v>)>,
    /// Texts of values that are not text in the event.
    texts: String,
}

#[derive(Clone)]
enum Text<'v> {
    Of(&'v str),
    /// Position in [`Labels::texts`].
    At(Range<usize>),
}

impl<'v> Labels<'v> {
    /// Replaces the labels by those of a sample. Labels that are `null` or empty are omitted, because an empty label
    /// and no label are the same.
    ///
    /// # Errors
    /// A label has an invalid name or is not a text, or the labels exceed a limit.
    pub(crate) fn read(&mut self, sample: &Sample<'v>) -> Result<()> {
        self.labels.clear();
        self.texts.clear();
        let Some(value) = sample.labels else { return Ok(()) };
        let Some(object) = value.as_object() else {
            return Err(wrong("an object as `labels`", value));
        };
        let mut bytes = 0;
        for (name, value) in object {
            if !is_label_name(name) || name == METRIC_NAME {
                return Err(Error::bad_data(format_args!(
                    "{:?} cannot name a label: expected letters, digits and `_`, no digit first, and not `{METRIC_NAME}`",
                    shown(name)
                )));
            }
            let text = match value.shape() {
                Shape::Null => continue,
                Shape::String(text) => Text::Of(text),
                Shape::F64(value) if !value.is_finite() => {
                    Text::Of(number::text_of_non_finite(value))
                }
                Shape::Bool(_)
                | Shape::I64(_)
                | Shape::U64(_)
                | Shape::F64(_)
                | Shape::Number(_) => self.formatted(value),
                _ => return Err(wrong(&format!("text as the label `{}`", shown(name)), value)),
            };
            bytes += name.len() + self.text(&text).len();
            if bytes > MOST_LABEL_BYTES || self.labels.len() == MOST_LABELS {
                return Err(Error::bad_data(format_args!(
                    "the labels of `{}` exceed {MOST_LABELS} labels or {MOST_LABEL_BYTES} bytes",
                    shown(sample.name)
                )));
            }
            if !self.text(&text).is_empty() {
                self.labels.push((name, text));
            }
        }
        Ok(())
    }

    fn formatted(&mut self, value: ValueRef<'_>) -> Text<'v> {
        use std::fmt::Write;
        let start = self.texts.len();
        // Writing to a `String` cannot fail.
        let _ = write!(self.texts, "{value}");
        Text::At(start..self.texts.len())
    }

    /// Adds a label, unless the sample has a label of this name.
    pub(crate) fn add(&mut self, name: &'v str, value: &'v str) {
        if !self.has(name) && !value.is_empty() {
            self.labels.push((name, Text::Of(value)));
        }
    }

    /// Adds a label whose value `render` appends to a text, unless the sample has a label of this name.
    ///
    /// # Errors
    /// Returns the errors of `render`.
    pub(crate) fn add_rendered<E>(
        &mut self,
        name: &'v str,
        render: impl FnOnce(&mut String) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.has(name) {
            return Ok(());
        }
        let start = self.texts.len();
        render(&mut self.texts)?;
        if self.texts.len() > start {
            self.labels.push((name, Text::At(start..self.texts.len())));
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.labels.iter().any(|(found, _)| *found == name)
    }

    /// Sorts the labels by their names.
    pub(crate) fn sort(&mut self) {
        self.labels.sort_unstable_by_key(|(name, _)| *name);
    }

    /// Returns the labels and their values, in the order of the last change.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'v str, &str)> {
        self.labels.iter().map(|(name, text)| (*name, self.text(text)))
    }

    fn text<'s>(&'s self, text: &'s Text<'v>) -> &'s str {
        match text {
            Text::Of(text) => text,
            Text::At(range) => &self.texts[range.clone()],
        }
    }
}

#[cold]
fn wrong(expected: &str, found: ValueRef<'_>) -> Error {
    let found = found.to_string();
    Error::bad_data(format_args!("expected {expected}, found {}", shown(&found)))
}

/// Returns the text with which an error quotes a value.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
