//! Metrics that plugins register: `tremor_plugin_COMPONENT_NAME`.

use std::collections::BTreeMap;

use super::text::{Kind, Text};
use crate::{
    instance_metrics::OwnMetrics,
    plugin::{Metric, MetricKind},
};

/// Family of samples of one kind.
struct Family<'m> {
    kind: MetricKind,
    help: &'m str,
    /// Sum and number of the recorded values of all instances of a component, by flow and component.
    samples: BTreeMap<(&'m str, &'m str), (f64, u64)>,
}

/// Writes the metrics of all instances. Metrics of instances of the same component in a flow are added up.
pub(super) fn write(text: &mut Text, plugins: &[OwnMetrics]) {
    let mut families = BTreeMap::<String, Family<'_>>::new();
    for OwnMetrics { flow, component, kind, metrics } in plugins {
        for metric in metrics {
            let Metric { value, count, help, .. } = metric;
            let (samples, help) = (BTreeMap::new(), help.as_str());
            let new = Family { kind: metric.kind, help, samples };
            let family = families.entry(name(kind, metric)).or_insert(new);
            // A metric is left out if another kind of metric has the same name, possibly because characters of the
            // names were replaced.
            if family.kind == metric.kind {
                let (sum, counts) = family.samples.entry((flow, component)).or_default();
                *sum += value;
                *counts += count;
            }
        }
    }
    for (name, Family { kind, help, samples }) in families {
        let help = if help.is_empty() { "A metric of a plugin." } else { help };
        let shown = match kind {
            MetricKind::Counter => Kind::Counter,
            MetricKind::Gauge => Kind::Gauge,
            MetricKind::Histogram => Kind::Summary,
        };
        text.family(&name, shown, help);
        for ((flow, component), (sum, count)) in samples {
            let labels = [("flow", flow), ("component", component)];
            if shown == Kind::Summary {
                text.sample(&format!("{name}_sum"), &labels, sum);
                text.sample(&format!("{name}_count"), &labels, count);
            } else {
                text.sample(&name, &labels, sum);
            }
        }
    }
}

/// Returns the name of a metric. It consists of letters, digits and `_`. The name of a counter has the suffix `_total`.
fn name(kind: &str, metric: &Metric) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let named = format!("tremor_plugin_{kind}_{}", metric.name);
    let mut name: String = named.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if metric.kind == MetricKind::Counter && !name.ends_with("_total") {
        name.push_str("_total");
    }
    name
}
