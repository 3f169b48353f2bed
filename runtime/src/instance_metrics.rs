//! Metrics that instances of components register, such as those of plugins.

use std::sync::{Arc, Mutex, Weak};

use tremor_pdk::lock;

use crate::plugin::{HostContext, Metric, Metrics};

/// Metrics that the instances of components of a run have registered. Clones share the same metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceMetrics(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    /// Instances that may have metrics.
    instances: Vec<Instance>,
    /// Counters and histograms of instances that have ended.
    past: Vec<OwnMetrics>,
}

/// An instance of a component that may have metrics.
#[derive(Debug)]
struct Instance {
    flow: String,
    component: String,
    /// Name of the component type.
    kind: String,
    /// Context of the instance. Once the instance has ended, the reference can no longer be upgraded, and no further
    /// values are recorded.
    host: Weak<HostContext>,
    metrics: Arc<Metrics>,
}

/// Name of the metric with which a source reports the size of its input, in bytes.
const INPUT_SIZE: &str = "input_bytes";

/// Total size of the input of a source.
#[derive(Clone, Debug)]
pub struct InputSize {
    /// Name of the flow.
    pub flow: String,
    /// Name of the source.
    pub component: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Metrics that an instance of a component has registered.
#[derive(Clone, Debug)]
pub(crate) struct OwnMetrics {
    pub(crate) flow: String,
    /// Name of the connector or pipeline that the instance belongs to.
    pub(crate) component: String,
    /// Name of the component type.
    pub(crate) kind: String,
    pub(crate) metrics: Vec<Metric>,
}

impl InstanceMetrics {
    /// Returns the sizes of the inputs of sources that register the gauge `input_bytes`.
    pub(crate) fn input_sizes(&self) -> Vec<InputSize> {
        let size = |OwnMetrics { flow, component, metrics, .. }: OwnMetrics| {
            let known = |metric: &&Metric| metric.name == INPUT_SIZE && metric.value >= 0.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let bytes = metrics.iter().find(known)?.value as u64;
            Some(InputSize { flow, component, bytes })
        };
        self.all().into_iter().filter_map(size).collect()
    }

    /// Adds an instance of the component `kind` of a flow, whose context is `host`.
    pub(crate) fn add(&self, flow: &str, kind: &str, host: &Arc<HostContext>) {
        let instance = Instance {
            flow: flow.to_owned(),
            component: host.component().to_owned(),
            kind: kind.to_owned(),
            metrics: host.metrics().clone(),
            host: Arc::downgrade(host),
        };
        let mut registered = lock(&self.0);
        registered.keep_past();
        registered.instances.push(instance);
    }

    /// Returns the metrics of all instances that have registered any, and those of instances that have ended.
    pub(crate) fn all(&self) -> Vec<OwnMetrics> {
        let mut registered = lock(&self.0);
        registered.keep_past();
        let now = registered.instances.iter().map(OwnMetrics::of);
        now.chain(registered.past.iter().cloned()).filter(|it| !it.metrics.is_empty()).collect()
    }
}

impl Registered {
    /// Moves the counters of instances that have ended to `past`, because counters must never decrease.
    fn keep_past(&mut self) {
        for gone in self.instances.extract_if(.., |it| it.host.strong_count() == 0) {
            let OwnMetrics { flow, component, kind, metrics } = OwnMetrics::of(&gone);
            let is_same =
                |it: &OwnMetrics| (&it.flow, &it.component, &it.kind) == (&flow, &component, &kind);
            let at = self.past.iter().position(is_same).unwrap_or_else(|| {
                self.past.push(OwnMetrics { flow, component, kind, metrics: Vec::new() });
                self.past.len() - 1
            });
            Metric::add_past(&mut self.past[at].metrics, metrics);
        }
    }
}

impl OwnMetrics {
    fn of(Instance { flow, component, kind, metrics, .. }: &Instance) -> Self {
        let [flow, component, kind] = [flow, component, kind].map(Clone::clone);
        Self { flow, component, kind, metrics: metrics.snapshot() }
    }
}

#[cfg(test)]
mod tests {
    use super::InstanceMetrics;
    use crate::plugin::{HostContext, MetricKind, Number};

    #[test]
    fn counter_does_not_decrease_after_its_instance_has_ended() {
        let all = InstanceMetrics::default();
        let counted = |value: f64| {
            let host = HostContext::new("http", "", ());
            all.add("flow", "client", &host);
            for (kind, name) in [(MetricKind::Counter, "sent"), (MetricKind::Gauge, "open")] {
                let Number::Of(number) = host.metrics().register(kind, name, "") else {
                    panic!("the metric was refused")
                };
                host.metrics().record(number, value);
            }
            host
        };
        let shown = || {
            let metrics = all.all().into_iter().flat_map(|it| it.metrics);
            let mut shown: Vec<_> = metrics.map(|it| format!("{} {}", it.name, it.value)).collect();
            shown.sort();
            shown
        };
        let first = counted(3.0);
        assert_eq!(shown(), ["open 3", "sent 3"]);
        drop(first);
        assert_eq!(shown(), ["sent 3"], "the gauge of an ended instance is removed");
        let second = counted(4.0);
        assert_eq!(shown(), ["open 4", "sent 3", "sent 4"], "a reader adds the counters up");
        drop((second, counted(5.0)));
        assert_eq!(shown(), ["sent 12"]);
    }
}
