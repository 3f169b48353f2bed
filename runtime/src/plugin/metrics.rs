//! Metrics that a component registers with its host.

use std::sync::Mutex;

use tremor_pdk::lock;

/// The way in which a metric treats recorded values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Sums up the values.
    Counter,
    /// Keeps the last value.
    Gauge,
    /// Keeps the distribution of the values.
    Histogram,
}

/// Current state of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Name, unique within the component.
    pub name: String,
    /// Description in one line.
    pub help: String,
    /// Sum of a counter or a histogram, last value of a gauge.
    pub value: f64,
    /// Number of recorded values.
    pub count: u64,
    /// Smallest recorded value; infinity before the first one.
    pub min: f64,
    /// Largest recorded value; negative infinity before the first one.
    pub max: f64,
}

impl Metric {
    /// Adds the counters and histograms of an instance that has ended to `past`. Gauges are left out, because their
    /// values no longer apply.
    pub(crate) fn add_past(past: &mut Vec<Self>, ended: Vec<Self>) {
        for metric in ended.into_iter().filter(|metric| metric.kind != MetricKind::Gauge) {
            match past.iter_mut().find(|it| (it.kind, &it.name) == (metric.kind, &metric.name)) {
                Some(sum) => {
                    sum.value += metric.value;
                    sum.count += metric.count;
                    (sum.min, sum.max) = (sum.min.min(metric.min), sum.max.max(metric.max));
                }
                None => past.push(metric),
            }
        }
    }
}

/// Metrics of one component.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Vec<Metric>>);

impl Metrics {
    /// Registers a metric and returns its number. If there is a metric with this name, returns the number of that
    /// metric, even if its kind differs.
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

    /// Records a value. Ignores unknown numbers, values that are not finite, and negative values of a counter.
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

    /// Returns the current state of all metrics, in the order in which they were registered.
    pub fn snapshot(&self) -> Vec<Metric> {
        lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricKind, Metrics};

    #[test]
    fn counter_sums_gauge_keeps_last_histogram_keeps_all() {
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
