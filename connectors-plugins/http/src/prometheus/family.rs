//! Types of metrics, and the families to which samples belong in the text format.

/// The type of a metric, as events name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    #[default]
    Untyped,
    GaugeHistogram,
    StateSet,
    Info,
}

use Kind::{Counter, Gauge, GaugeHistogram, Histogram, Info, StateSet, Summary, Untyped};

impl Kind {
    /// Returns the type with this name in an event.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "counter" => Counter,
            "gauge" => Gauge,
            "histogram" => Histogram,
            "summary" => Summary,
            "untyped" | "unknown" => Untyped,
            "gaugehistogram" => GaugeHistogram,
            "stateset" => StateSet,
            "info" => Info,
            _ => return None,
        })
    }

    /// Returns the name of the type in a `TYPE` line of the text format, which has no other types.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Counter => "counter",
            Histogram => "histogram",
            Summary => "summary",
            Untyped => "untyped",
            Gauge | GaugeHistogram | StateSet | Info => "gauge",
        }
    }

    /// Returns the family in which the text format has a sample named `name`, and the type of that family. `family` is
    /// the family that the event names. Types that the text format lacks become gauges, as in client libraries.
    pub(crate) fn in_text<'n>(self, family: &'n str, name: &'n str) -> (&'n str, Self) {
        let suffix = name.strip_prefix(family);
        match (self, suffix) {
            (Histogram, Some("_bucket" | "_sum" | "_count"))
            | (Summary, Some("" | "_sum" | "_count")) => (family, self),
            (Counter | Histogram | Summary, Some("_created"))
            | (Gauge | GaugeHistogram | StateSet | Info, _) => (name, Gauge),
            (Counter, _) => (name, Counter),
            // A sample that the type of its family does not allow has no type.
            (Histogram | Summary | Untyped, _) => (name, Untyped),
        }
    }

    /// Returns the label whose values order the samples of a family by number.
    pub(crate) const fn ordering_label(self) -> Option<&'static str> {
        match self {
            Histogram => Some("le"),
            Summary => Some("quantile"),
            _ => None,
        }
    }
}

/// Returns whether `text` is a valid name of a metric.
pub(crate) fn is_metric_name(text: &str) -> bool {
    is_name(text, |byte| byte == b':')
}

/// Returns whether `text` is a valid name of a label.
pub(crate) fn is_label_name(text: &str) -> bool {
    is_name(text, |_| false)
}

fn is_name(text: &str, is_also: impl Fn(u8) -> bool) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || is_also(byte);
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{Kind, is_label_name, is_metric_name};

    #[test]
    fn family_in_text_follows_from_type_and_name() {
        for (kind, family, name, expected) in [
            (Kind::Histogram, "h", "h_bucket", ("h", Kind::Histogram)),
            (Kind::Summary, "s", "s", ("s", Kind::Summary)),
            (Kind::Counter, "c", "c_total", ("c_total", Kind::Counter)),
            (Kind::Counter, "c", "c_created", ("c_created", Kind::Gauge)),
            (Kind::Info, "i", "i_info", ("i_info", Kind::Gauge)),
            (Kind::Histogram, "h", "h", ("h", Kind::Untyped)),
            (Kind::Untyped, "u", "u", ("u", Kind::Untyped)),
        ] {
            assert_eq!(kind.in_text(family, name), expected, "{name}");
        }
    }

    #[test]
    fn names_have_letters_digits_and_underscores() {
        for name in ["a", "_a1", "A_"] {
            assert!(is_metric_name(name) && is_label_name(name), "{name}");
        }
        assert!(is_metric_name("a:b") && !is_label_name("a:b"));
        for name in ["", "1a", "a-b", "é", "a b"] {
            assert!(!is_metric_name(name) && !is_label_name(name), "{name}");
        }
    }
}
