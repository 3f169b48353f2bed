//! Metrics that a component registers with its host.

use std::{collections::HashMap, sync::Mutex};

use tremor_pdk::lock;

/// Maximum number of metrics of a component. Each metric is a series in the metrics of the process, so the number must
/// not grow with the events.
pub(crate) const MOST: usize = 1_000;

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
            let has_capacity = past.len() < MOST;
            match past.iter_mut().find(|it| (it.kind, &it.name) == (metric.kind, &metric.name)) {
                Some(sum) => {
                    sum.value += metric.value;
                    sum.count += metric.count;
                    (sum.min, sum.max) = (sum.min.min(metric.min), sum.max.max(metric.max));
                }
                None if has_capacity => past.push(metric),
                None => {}
            }
        }
    }
}

/// Metrics of one component.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    metrics: Vec<Metric>,
    /// Positions of the metrics by name.
    numbers: HashMap<String, u32>,
    /// `true` once a metric was refused.
    is_exceeded: bool,
}

/// The result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// The number of the metric.
    Of(u32),
    /// The component has [`MOST`] metrics, so this one is not recorded. `is_first` is `true` for the first one.
    Refused { is_first: bool },
}

impl Metrics {
    /// Registers a metric and returns its number. If there is a metric with this name, returns the number of that
    /// metric, even if its kind differs.
    pub(crate) fn register(&self, kind: MetricKind, name: &str, help: &str) -> Number {
        let Registered { metrics, numbers, is_exceeded } = &mut *lock(&self.0);
        if let Some(number) = numbers.get(name) {
            return Number::Of(*number);
        }
        let number = u32::try_from(metrics.len()).unwrap_or(u32::MAX);
        if metrics.len() >= MOST {
            return Number::Refused { is_first: !std::mem::replace(is_exceeded, true) };
        }
        numbers.insert(name.to_owned(), number);
        metrics.push(Metric {
            kind,
            name: name.to_owned(),
            help: help.to_owned(),
            value: 0.0,
            count: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        });
        Number::Of(number)
    }

    /// Records a value. Ignores unknown numbers, values that are not finite, and negative values of a counter.
    pub(crate) fn record(&self, number: u32, value: f64) {
        let mut registered = lock(&self.0);
        let Some(metric) = registered.metrics.get_mut(number as usize) else { return };
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

    /// Sets the state of a metric that another process has recorded. Registers the metric if it is unknown, and ignores
    /// it if the component has [`MOST`] metrics already, or if its value is invalid.
    pub(super) fn set(&self, metric: &Metric) {
        let Number::Of(number) = self.register(metric.kind, &metric.name, &metric.help) else {
            return;
        };
        let is_valid =
            metric.value.is_finite() && (metric.kind != MetricKind::Counter || metric.value >= 0.0);
        let mut registered = lock(&self.0);
        if let Some(known) = registered.metrics.get_mut(number as usize)
            && is_valid
            && known.kind == metric.kind
        {
            (known.value, known.count) = (metric.value, metric.count);
            (known.min, known.max) = (metric.min, metric.max);
        }
    }

    /// Returns the current state of all metrics, in the order in which they were registered.
    pub fn snapshot(&self) -> Vec<Metric> {
        lock(&self.0).metrics.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, MetricKind, Metrics, Number};

    #[test]
    fn counter_sums_gauge_keeps_last_histogram_keeps_all() {
        let metrics = Metrics::default();
        for (kind, name) in [
            (MetricKind::Counter, "counter"),
            (MetricKind::Gauge, "gauge"),
            (MetricKind::Histogram, "histogram"),
        ] {
            let registered = metrics.register(kind, name, "");
            assert_eq!(metrics.register(kind, name, ""), registered, "the same name and number");
            let Number::Of(number) = registered else { panic!("the metric was refused") };
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
    #[test]
    fn metrics_above_the_limit_are_refused() {
        let metrics = Metrics::default();
        let register = |name: usize| metrics.register(MetricKind::Counter, &name.to_string(), "");
        for name in 0..MOST {
            assert_eq!(register(name), Number::Of(u32::try_from(name).unwrap()));
        }
        for is_first in [true, false] {
            assert_eq!(register(MOST), Number::Refused { is_first });
        }
        assert_eq!(register(7), Number::Of(7));
        assert_eq!(metrics.snapshot().len(), MOST);
    }
}
