//! The text format of Prometheus, version 0.0.4.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::fmt::{Display, Write as _};

use crate::redact;

/// Kind of a family of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Value that only increases.
    Counter,
    /// Value that increases and decreases.
    Gauge,
    /// Sum and count.
    Summary,
    /// Sum and count, with counts by upper bounds.
    Histogram,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }
}

/// Text of families of samples.
#[derive(Debug, Default)]
pub(super) struct Text(pub(super) String);

// Writing to a string cannot fail.
impl Text {
    /// Begins a family. All samples with its name have to follow.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let help = redact::text(help).replace('\\', "\\\\").replace('\n', "\\n");
        _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
    }

    /// Adds a sample. Labels with an empty value are omitted.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, text) in labels.iter().filter(|(_, text)| !text.is_empty()) {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            _ = write!(self.0, "{before}{label}=\"{text}\"");
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
        _ = writeln!(self.0, " {value}");
    }
}
