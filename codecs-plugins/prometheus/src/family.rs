//! Families: their types, and the names of their samples.

use crate::config::Format;

/// The type of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    /// Named `untyped` in the text format and in events, and `unknown` in `OpenMetrics`.
    #[default]
    Untyped,
    GaugeHistogram,
    StateSet,
    Info,
}

use Kind::{Counter, Gauge, GaugeHistogram, Histogram, Info, StateSet, Summary, Untyped};

/// Types by their names in events. The types after the fifth exist only in `OpenMetrics`.
const KINDS: [(&str, Kind); 8] = [
    ("counter", Counter),
    ("gauge", Gauge),
    ("histogram", Histogram),
    ("summary", Summary),
    ("untyped", Untyped),
    ("gaugehistogram", GaugeHistogram),
    ("stateset", StateSet),
    ("info", Info),
];

impl Kind {
    /// Returns the type with this name in an event.
    pub(crate) fn of_event(name: &str) -> Option<Self> {
        let name = if name == "unknown" { "untyped" } else { name };
        KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Returns the type with this name in a `TYPE` line.
    pub(crate) fn of_line(name: &str, format: Format) -> Option<Self> {
        let known = match format {
            Format::Text => &KINDS[..5],
            Format::OpenMetrics => &KINDS,
        };
        let is_other = match format {
            Format::Text => name == "unknown",
            Format::OpenMetrics => name == "untyped",
        };
        let kind = Self::of_event(name).filter(|_| !is_other)?;
        known.iter().any(|(_, one)| *one == kind).then_some(kind)
    }

    /// Returns the name in events.
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("untyped", |(name, _)| name)
    }

    /// Returns the name in a `TYPE` line.
    pub(crate) fn line_name(self, format: Format) -> &'static str {
        match (self, format) {
            (Untyped, Format::OpenMetrics) => "unknown",
            _ => self.name(),
        }
    }

    /// Returns the suffixes by which the names of samples extend the name of their family.
    pub(crate) fn suffixes(self, format: Format) -> &'static [&'static str] {
        match (self, format) {
            (Histogram, Format::Text) => &["_bucket", "_sum", "_count"],
            (Summary, Format::Text) => &["", "_sum", "_count"],
            (Counter, Format::OpenMetrics) => &["_total", "_created"],
            (Histogram, Format::OpenMetrics) => &["_bucket", "_sum", "_count", "_created"],
            (GaugeHistogram, Format::OpenMetrics) => &["_bucket", "_gsum", "_gcount"],
            (Summary, Format::OpenMetrics) => &["", "_sum", "_count", "_created"],
            (Info, Format::OpenMetrics) => &["_info"],
            _ => &[""],
        }
    }

    /// Returns whether a sample named `name` belongs to the family.
    pub(crate) fn has(self, family: &str, name: &str, format: Format) -> bool {
        name.strip_prefix(family).is_some_and(|suffix| self.suffixes(format).contains(&suffix))
    }

    /// Returns the label that a sample named `name` must have, whose value is a number.
    pub(crate) fn needs(self, family: &str, name: &str) -> Option<&'static str> {
        match (self, name.strip_prefix(family)?) {
            (Histogram | GaugeHistogram, "_bucket") => Some("le"),
            (Summary, "") => Some("quantile"),
            _ => None,
        }
    }

    /// Returns the family in which a sample is written, and the type of that family. A type that
    /// the format lacks is written as a gauge, as in client libraries.
    pub(crate) fn written(self, family: &str, name: &str, format: Format) -> Written {
        let is_created = name.strip_prefix(family) == Some("_created");
        let (family, kind) = match (self, format) {
            (Counter, Format::Text) if !is_created => (name, Counter),
            (GaugeHistogram | StateSet | Info, Format::Text) => (name, Gauge),
            (_, Format::Text) if is_created => (name, Gauge),
            // In the text format, the name of the family includes the suffix, so it is removed for `OpenMetrics`.
            (Counter, Format::OpenMetrics) if family == name => {
                (name.strip_suffix("_total").unwrap_or(name), Counter)
            }
            _ => (family, self),
        };
        Written { family: family.to_owned(), kind }
    }
}

/// The family in which a sample is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) family: String,
    pub(crate) kind: Kind,
}

/// Returns whether `text` is a valid name of a metric.
pub(crate) fn is_metric_name(text: &str) -> bool {
    is_name(text, b":")
}

/// Returns whether `text` is a valid name of a label.
pub(crate) fn is_label_name(text: &str) -> bool {
    is_name(text, b"")
}

fn is_name(text: &str, more: &[u8]) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || more.contains(&byte);
    !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}
