//! The metrics that a component registers through its host.

use std::sync::Mutex;

use crate::lock::lock;

/// What a metric does with what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Adds it up.
    Counter,
    /// Keeps the last.
    Gauge,
    /// Keeps the distribution.
    Histogram,
}

/// A metric as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// What it does with what is recorded.
    pub kind: MetricKind,
    /// Its name, unique within the component.
    pub name: String,
    /// What it is, in a line.
    pub help: String,
    /// The sum of a counter or histogram, the last value of a gauge.
    pub value: f64,
    /// How many values were recorded.
    pub count: u64,
    /// The smallest value recorded; infinite before the first.
    pub min: f64,
    /// The largest value recorded; negative infinity before the first.
    pub max: f64,
}

impl Metric {
    /// Adds to metrics what those of an instance that is gone have counted. What gauges showed goes with it.
    pub(crate) fn add_past(past: &mut Vec<Self>, gone: Vec<Self>) {
        for of in gone.into_iter().filter(|metric| metric.kind != MetricKind::Gauge) {
            match past.iter_mut().find(|it| (it.kind, &it.name) == (of.kind, &of.name)) {
                Some(sum) => {
                    sum.value += of.value;
                    sum.count += of.count;
                    (sum.min, sum.max) = (sum.min.min(of.min), sum.max.max(of.max));
                }
                None => past.push(of),
            }
        }
    }
}

/// The metrics of one component.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Vec<Metric>>);

impl Metrics {
    /// Registers a metric and gives its number. A name that is there gives the metric that is
    /// there, of whatever kind.
    pub(crate) fn register(&self, kind: MetricKind, name: &str, help: &str) -> u32 {
        let mut metrics = lock(&self.0);
        let position = metrics.iter().position(|metric| metric.name == name);
        let position = position.unwrap_or_else(|| {
            metrics.push(Metric {
                kind,
                name: name.to_owned(),
                help: help.to_owned(),
                value: 0.0,
                count: 0,
                min: f64::INFINITY,
                max: f64::NEG_INFINITY,
            });
            metrics.len() - 1
        });
        u32::try_from(position).unwrap_or(u32::MAX)
    }

    /// Records a value. What makes no sense is ignored: an unknown number, a value that is not
    /// finite, a counter that goes down.
    pub(crate) fn record(&self, number: u32, value: f64) {
        let mut metrics = lock(&self.0);
        let Some(metric) = metrics.get_mut(number as usize) else { return };
        if !value.is_finite() || metric.kind == MetricKind::Counter && value < 0.0 {
            return;
        }
        match metric.kind {
            MetricKind::Counter | MetricKind::Histogram => metric.value += value,
            MetricKind::Gauge => metric.value = value,
        }
        metric.count += 1;
        metric.min = metric.min.min(value);
        metric.max = metric.max.max(value);
    }

    /// All metrics as they stand, in the order in which they were registered.
    pub fn snapshot(&self) -> Vec<Metric> {
        lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricKind, Metrics};

    #[test]
    fn a_counter_adds_up_a_gauge_keeps_the_last_a_histogram_keeps_the_distribution() {
        let metrics = Metrics::default();
        for (kind, name) in [
            (MetricKind::Counter, "counter"),
            (MetricKind::Gauge, "gauge"),
            (MetricKind::Histogram, "histogram"),
        ] {
            let number = metrics.register(kind, name, "");
            assert_eq!(metrics.register(kind, name, ""), number, "the same name, the same number");
            for value in [2.0, 1.0, f64::NAN] {
                metrics.record(number, value);
            }
        }
        metrics.record(3, 1.0);
        metrics.record(0, -1.0);
        let shown = metrics.snapshot();
        let shown = shown.iter().map(|metric| (metric.value, metric.count, metric.min, metric.max));
        let expected = [(3.0, 2, 1.0, 2.0), (1.0, 2, 1.0, 2.0), (3.0, 2, 1.0, 2.0)];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}
