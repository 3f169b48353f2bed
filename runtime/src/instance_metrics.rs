//! Metrics that instances of components register, such as those of plugins.

use std::sync::{Arc, Mutex, Weak};

use crate::{
    lock::lock,
    plugin::{HostContext, Metric, Metrics},
};

/// The metrics of a run that instances of components register. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceMetrics(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    /// The components that may have metrics of their own.
    instances: Vec<Instance>,
    /// Counts of instances that are gone.
    past: Vec<OwnMetrics>,
}

/// An instance of a component that may have metrics of its own.
#[derive(Debug)]
struct Instance {
    flow: String,
    component: String,
    /// What the component is called in plugins.
    kind: String,
    /// Gone when the instance is, which then records nothing more.
    host: Weak<HostContext>,
    metrics: Arc<Metrics>,
}

/// The metric of a source that knows how much it will bring, in bytes.
const INPUT_SIZE: &str = "input_bytes";

/// How much a source will have brought in the end.
#[derive(Clone, Debug)]
pub struct InputSize {
    /// The flow.
    pub flow: String,
    /// The source.
    pub component: String,
    /// A number of bytes.
    pub bytes: u64,
}

/// The metrics that an instance of a component has registered.
#[derive(Clone, Debug)]
pub(crate) struct OwnMetrics {
    pub(crate) flow: String,
    /// The connector or pipeline that it is, or is part of.
    pub(crate) component: String,
    /// What the component is called in plugins.
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

    /// The metrics of components that have registered any, with what instances before them have counted.
    pub(crate) fn all(&self) -> Vec<OwnMetrics> {
        let mut registered = lock(&self.0);
        registered.keep_past();
        let now = registered.instances.iter().map(OwnMetrics::of);
        now.chain(registered.past.iter().cloned()).filter(|it| !it.metrics.is_empty()).collect()
    }
}

impl Registered {
    /// Keeps what instances have counted that are gone: a counter never goes down.
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
    use crate::plugin::{HostContext, MetricKind};

    #[test]
    fn counter_never_goes_down_when_its_instance_is_gone() {
        let all = InstanceMetrics::default();
        let counted = |value: f64| {
            let host = HostContext::new("http", "", ());
            all.add("flow", "client", &host);
            for (kind, name) in [(MetricKind::Counter, "sent"), (MetricKind::Gauge, "open")] {
                host.metrics().record(host.metrics().register(kind, name, ""), value);
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
        assert_eq!(shown(), ["sent 3"], "a gauge shows nothing any more");
        let second = counted(4.0);
        assert_eq!(shown(), ["open 4", "sent 3", "sent 4"], "what is shown is their sum");
        drop((second, counted(5.0)));
        assert_eq!(shown(), ["sent 12"]);
    }
}
