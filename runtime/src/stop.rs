//! Ends the flows of a run: what was asked for, and what signals mean. Pauses and restarts connectors of them,
//! and says how they stand.

use std::{
    sync::{Arc, Mutex, Weak},
    time::{Duration, Instant},
};

use crate::{
    engine::{self, FlowState, State},
    lock::lock,
    plugin::{HostContext, Metric, Metrics},
};

/// Signals that come sooner after the first are the same request: `timeout`, say, sends one to the
/// process and one to its group.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// Ends the flows of a run, and pauses and restarts connectors of them. Clones end the same run.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Mutex<Run>>);

#[derive(Debug, Default)]
struct Run {
    flows: Vec<engine::Handle>,
    /// The most that was asked for.
    asked: Option<Ask>,
    /// When the first signal came.
    first_signal: Option<Instant>,
    /// The components that may have metrics of their own.
    instances: Vec<Instance>,
    /// What those that are gone have counted.
    past: Vec<OwnMetrics>,
    /// Whether somebody may ask how long deliveries take.
    is_watched: bool,
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

/// The states of connectors that are connected, or that were and have nothing more to do.
const CONNECTED: [State; 4] = [State::Running, State::Paused, State::Draining, State::Stopped];

/// How much a source will have brought in the end.
#[derive(Clone, Debug)]
pub struct InputSize {
    /// The flow.
    pub flow: String,
    /// The source.
    pub component: String,
    /// So many bytes.
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

/// What is asked of flows, and then of those that are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ask {
    Drain,
    Stop,
    Halt,
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// The first: everything drains.
    Drain,
    /// Another one so soon that it is the same request.
    Again,
    /// Everything ends where it is, and nobody waits for what does not.
    Halt,
}

impl Stopper {
    /// Sources bring nothing more; what is under way still arrives.
    pub fn drain(&self) {
        self.ask(Ask::Drain);
    }

    /// Everything ends where it is.
    pub fn stop(&self) {
        self.ask(Ask::Stop);
    }

    /// Pauses a connector of a running flow: no event flows through it until it is
    /// [resumed](Stopper::resume), or its flow drains. What it has under way ends before that. Whether there
    /// is such a connector.
    pub fn pause(&self, flow: &str, connector: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.pause(connector))
    }

    /// Events flow again through a connector that was paused. Whether there is such a connector.
    pub fn resume(&self, flow: &str, connector: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.resume(connector))
    }

    /// Restarts a connector of a running flow: another instance takes the place of the one at hand, at once,
    /// and this counts as no failure. What its sink has not answered for is delivered again. Whether there
    /// is such a connector.
    pub fn restart(&self, flow: &str, connector: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.restart(connector))
    }

    /// Drains one flow while others run: its sources bring nothing more, and what is under way has until
    /// the `deadline` to arrive. That of a flow that drains already stays what it was. Whether there is
    /// such a flow.
    pub fn drain_flow(&self, flow: &str, deadline: Duration) -> bool {
        self.flow(flow).map(|it| it.drain_within(deadline)).is_some()
    }

    /// Returns whether a running flow drains.
    pub(crate) fn is_draining(&self, flow: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.is_draining())
    }

    /// Ends one flow where it is, while others run. Whether there is such a flow.
    pub fn stop_flow(&self, flow: &str) -> bool {
        self.flow(flow).map(|it| it.stop()).is_some()
    }

    /// How things stand with the connectors of a running flow; none where there is no such flow.
    pub fn connectors(&self, flow: &str) -> Option<Vec<engine::Status>> {
        Some(self.flow(flow)?.connectors())
    }

    /// The flows of the run as they stand, in the order in which they began.
    pub fn flows(&self) -> Vec<engine::FlowStatus> {
        let flows = lock(&self.0).flows.clone();
        flows.iter().map(engine::Handle::status).collect()
    }

    /// Somebody may ask how long deliveries take: they are counted from now on.
    pub(crate) fn watch_deliveries(&self) {
        let mut state = lock(&self.0);
        state.is_watched = true;
        state.flows.iter().for_each(engine::Handle::watch_deliveries);
    }

    /// A flow of the run.
    pub(crate) fn flow(&self, name: &str) -> Option<engine::Handle> {
        lock(&self.0).flows.iter().find(|flow| flow.flow() == name).cloned()
    }

    /// Returns the reasons why a run of `flows` flows is not ready for events. The list is empty once all flows run
    /// and all their connectors are connected, with no pull or delivery that is being retried.
    pub fn awaited(&self, flows: usize) -> Vec<String> {
        let running = self.flows();
        let mut awaited = Vec::new();
        if running.len() < flows {
            awaited.push("the flows begin".to_owned());
        }
        for flow in &running {
            if flow.state == FlowState::Stopped {
                // It has done all that there was to do.
                continue;
            }
            if flow.state != FlowState::Running {
                awaited.push(format!("the flow `{}` is {}", flow.name, flow.state.as_str()));
                continue;
            }
            for engine::Status { connector, state, since, .. } in &flow.connectors {
                if !CONNECTED.contains(state) {
                    let (flow, seconds) = (&flow.name, since.elapsed().as_secs());
                    awaited.push(format!(
                        "the connector `{connector}` of `{flow}` is {state} for {seconds} s"
                    ));
                }
            }
        }
        awaited
    }

    /// Returns whether a run of `flows` flows has started: all flows have begun, at least one has not failed, and
    /// each connector of those was connected, or its first attempt to connect has failed or lasts for ten seconds.
    pub fn has_started(&self, flows: usize) -> bool {
        let begun = self.flows();
        let mut well = begun.iter().filter(|it| it.state != FlowState::Failed).peekable();
        begun.len() >= flows
            && (flows == 0 || well.peek().is_some())
            && well.all(|flow| flow.connectors.iter().all(|it| it.is_tried))
    }

    /// Whether a flow of the run drains, or was stopped, because somebody asked for that.
    pub fn ends(&self) -> bool {
        lock(&self.0).asked.is_some()
    }

    /// The sizes of the inputs of sources that know them: those that register the gauge `input_bytes`.
    pub fn input_sizes(&self) -> Vec<InputSize> {
        let size = |OwnMetrics { flow, component, metrics, .. }: OwnMetrics| {
            let known = |metric: &&Metric| metric.name == INPUT_SIZE && metric.value >= 0.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let bytes = metrics.iter().find(known)?.value as u64;
            Some(InputSize { flow, component, bytes })
        };
        self.own_metrics().into_iter().filter_map(size).collect()
    }

    /// Instances of the component `kind` of a flow have this context.
    pub(crate) fn add_instance(&self, flow: &str, kind: &str, host: &Arc<HostContext>) {
        let instance = Instance {
            flow: flow.to_owned(),
            component: host.component().to_owned(),
            kind: kind.to_owned(),
            metrics: host.metrics().clone(),
            host: Arc::downgrade(host),
        };
        let mut state = lock(&self.0);
        state.keep_past();
        state.instances.push(instance);
    }

    /// The metrics of components that have registered any, with what instances before them have counted.
    pub(crate) fn own_metrics(&self) -> Vec<OwnMetrics> {
        let mut state = lock(&self.0);
        state.keep_past();
        let now = state.instances.iter().map(OwnMetrics::of);
        now.chain(state.past.iter().cloned()).filter(|it| !it.metrics.is_empty()).collect()
    }

    /// A signal came at this moment: the first drains, a later one ends everything.
    pub fn signal(&self, now: Instant) -> Signalled {
        let mut state = lock(&self.0);
        let first = state.first_signal;
        state.first_signal.get_or_insert(now);
        drop(state);
        match first {
            None => {
                self.ask(Ask::Drain);
                Signalled::Drain
            }
            Some(first) if now.saturating_duration_since(first) <= ONE_REQUEST => Signalled::Again,
            Some(_) => {
                self.ask(Ask::Halt);
                Signalled::Halt
            }
        }
    }

    fn ask(&self, ask: Ask) {
        let mut state = lock(&self.0);
        state.asked = state.asked.max(Some(ask));
        state.flows.iter().for_each(|flow| ask.of(flow));
    }

    pub(crate) fn add(&self, flow: engine::Handle) {
        let mut state = lock(&self.0);
        if let Some(ask) = state.asked {
            ask.of(&flow);
        }
        if state.is_watched {
            flow.watch_deliveries();
        }
        state.flows.push(flow);
    }
}

impl Run {
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

impl Ask {
    fn of(self, flow: &engine::Handle) {
        match self {
            Self::Drain => flow.drain(),
            Self::Stop => flow.stop(),
            Self::Halt => flow.halt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Signalled, Stopper};
    use crate::plugin::{HostContext, MetricKind};

    #[test]
    fn signals_that_come_at_once_are_one_request_and_a_later_one_ends_everything() {
        let (stopper, first) = (Stopper::default(), Instant::now());
        let signals = [0, 0, 1, 250, 251, 1_000].map(|ms| first + Duration::from_millis(ms));
        let [drain, again, halt] = [Signalled::Drain, Signalled::Again, Signalled::Halt];
        let expected = [drain, again, again, again, halt, halt];
        assert_eq!(signals.map(|at| stopper.signal(at)), expected);
    }

    #[test]
    fn a_counter_never_goes_down_when_its_instance_is_replaced_or_gone() {
        let stopper = Stopper::default();
        let counted = |value: f64| {
            let host = HostContext::new("http", "", ());
            stopper.add_instance("flow", "client", &host);
            for (kind, name) in [(MetricKind::Counter, "sent"), (MetricKind::Gauge, "open")] {
                host.metrics().record(host.metrics().register(kind, name, ""), value);
            }
            host
        };
        let shown = || {
            let metrics = stopper.own_metrics().into_iter().flat_map(|it| it.metrics);
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

    #[test]
    fn the_first_signal_drains_although_a_component_has_asked_for_that() {
        let stopper = Stopper::default();
        stopper.drain();
        assert_eq!(stopper.signal(Instant::now()), Signalled::Drain);
    }
}
