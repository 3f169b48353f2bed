//! Results of one run, which the measured program (the subject) writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The JSON that a subject wrote. `tremor bench --json` writes all fields. Other programs need only write
/// `events_per_second`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sample {
    /// Throughput, by which subjects are compared.
    pub(crate) events_per_second: f64,
    pub(crate) events: Option<f64>,
    pub(crate) bytes_per_second: Option<f64>,
    pub(crate) latency_ns: Option<Latency>,
    /// Processor time of the run, in seconds.
    pub(crate) cpu_s: Option<f64>,
    pub(crate) cpu_ns_per_event: Option<f64>,
    #[serde(default)]
    pub(crate) libraries: Vec<Library>,
}

/// The distribution of latency, in ns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) mean: Option<f64>,
    pub(crate) stdev: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) p999: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// A plugin that the subject loaded or contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Library {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) hash: String,
}

impl Sample {
    /// Reads the result of a run.
    ///
    /// # Errors
    /// The file is missing, or is not a result.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path)
            .with_context(|| format!("the subject wrote no result to {name}"))?;
        Self::parse(&text).with_context(|| format!("{name} is not a result"))
    }

    fn parse(text: &str) -> Result<Self> {
        let sample: Self = serde_json::from_str(text)
            .context("expected a JSON object with the number `events_per_second`")?;
        let throughput = sample.events_per_second;
        ensure!(
            throughput.is_finite() && throughput > 0.0,
            "`events_per_second` is {throughput}: expected more than 0"
        );
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_the_only_required_field() {
        let sample = Sample::parse(r#"{"events_per_second": 1000, "whatever": [1]}"#).unwrap();
        assert!((sample.events_per_second - 1000.0).abs() < 1e-9);
        assert!(sample.latency_ns.is_none() && sample.libraries.is_empty());
    }

    #[test]
    fn invalid_result_is_refused_with_the_reason() {
        let table = [
            ("", "EOF"),
            ("1,234 events/s", "invalid type: integer `1`"),
            ("{\"events\": 1}", "missing field `events_per_second`"),
            ("{\"events_per_second\": \"fast\"}", "invalid type"),
            ("{\"events_per_second\": 0}", "expected more than 0"),
            ("{\"events_per_second\": -5.5}", "`events_per_second` is -5.5"),
        ];
        for (text, expected) in table {
            let error = format!("{:#}", Sample::parse(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn missing_result_is_named() {
        let error = Sample::read(Path::new("samples/none.json")).unwrap_err();
        assert_eq!(error.to_string(), "the subject wrote no result to samples/none.json");
    }
}
