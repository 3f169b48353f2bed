//! What all tasks of a flow share: in which phase the flow is, and what failed it.

pub(crate) mod buffers;
pub(crate) mod interrupt;
pub(crate) mod last_call;
pub(crate) mod overrun;
pub(crate) mod queues;

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::Error;

use crate::engine::{
    control::{
        buffers::Buffers,
        queues::{Queues, Waits},
    },
    handle::{
        ConnectorHandle,
        status::{Awaited, HeldUp, Status},
    },
    logging::losses::Losses,
    processors::Processors,
    retry::breaker::Outage,
    sync::watch::{Waiter, Watch},
};
use crate::{memory::FlowMemory, watchdog::Calls};

/// The life of a flow. It only ever goes forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Events flow.
    #[default]
    Running,
    /// Sources bring nothing more; what is under way still arrives.
    Draining,
    /// Everything ends where it is.
    Stopped,
    /// What does not end is not waited for.
    Halted,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// The sinks of the flow, each with the sources that feed it.
    sinks: Vec<Sink>,
    buffers: Buffers,
    queues: Queues,
    failure: Option<Failure>,
    /// How long it has to drain, where somebody has said that.
    deadline: Option<Duration>,
    /// Whether a connector has failed with which the run ends.
    ends_run: bool,
    connectors: Vec<Arc<ConnectorHandle>>,
    held_up: Vec<HeldUp>,
    /// `true` if a sink ended that still buffers events which it has acknowledged.
    is_undrained: bool,
}

impl State {
    /// Returns the sinks that sources wait for, by the name of the source's connector.
    fn waits(&self) -> BTreeMap<&str, Vec<Awaited>> {
        let mut found = BTreeMap::<_, Vec<_>>::new();
        if self.phase > Phase::Running {
            return found;
        }
        let waits = self.queues.waits();
        for sink in &self.sinks {
            for (node, source) in &sink.sources {
                let awaited = sink.awaited(*node, source, &waits);
                if let Some(awaited) = awaited.filter(|_| !self.is_over(source)) {
                    found.entry(source.as_str()).or_default().push(awaited);
                }
            }
        }
        for connector in &self.connectors {
            let Some(bound) = connector.bound() else { continue };
            let source = connector.name();
            if found.contains_key(source) {
                continue;
            }
            let sinks = self.sinks.iter().filter(|it| it.feeds(source) && it.has_events());
            let sinks = sinks.map(|it| it.connector.name());
            let mut names = self.buffers.filled_by(source).chain(sinks).peekable();
            // Events that no pipeline and no sink has are with the source's own tasks.
            let own = names.peek().is_none().then_some(source);
            let awaited = |name: &str| Awaited::at_pull_limit(name, bound);
            found.insert(source, names.chain(own).map(awaited).collect());
        }
        found
    }

    fn is_over(&self, connector: &str) -> bool {
        let mut connectors = self.connectors.iter();
        connectors.any(|it| it.name() == connector && it.status().state.is_over())
    }
}

/// A sink, as the sources that feed it see it.
#[derive(Debug)]
struct Sink {
    node: u32,
    connector: Arc<ConnectorHandle>,
    /// The sources whose events may reach the sink: node, and name of the connector.
    sources: Vec<(u32, String)>,
    /// `true` once the sink was connected for the first time. Sources do not begin before that.
    is_ready: bool,
    outage: Weak<Outage>,
}

impl Sink {
    /// Returns whether the source of the connector `source` is not pulled because of this sink.
    fn holds_up(&self, source: &str) -> bool {
        let is_down = || self.outage.upgrade().is_some_and(|outage| outage.is_down());
        // A breaker never stops the source of the sink's own connector.
        self.awaited_by(source)
            || (self.feeds(source) && self.connector.name() != source && is_down())
    }

    /// Returns whether the source of the connector `source` may not begin because of this sink.
    fn awaited_by(&self, source: &str) -> bool {
        !self.is_ready && self.feeds(source)
    }

    fn feeds(&self, source: &str) -> bool {
        self.sources.iter().any(|(_, name)| name == source)
    }

    fn has_events(&self) -> bool {
        self.connector.in_flight() + self.connector.queued() > 0
    }

    /// Returns the reason why the source `node` of the connector `source` is not pulled, if it is this sink.
    fn awaited(&self, node: u32, source: &str, waits: &Waits) -> Option<Awaited> {
        if self.holds_up(source) {
            return Some(self.connector.awaited(None));
        }
        let since = *waits.of(node).get(&self.node)?;
        Some(self.connector.awaited(Some(since)))
    }
}

/// Why a flow failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The component that failed.
    pub component: String,
    /// What it failed with.
    pub error: Error,
}

/// The control of one flow.
#[derive(Debug)]
pub(crate) struct Control {
    /// A copy of the state's phase, to look at without a lock once a batch.
    phase: AtomicU8,
    state: Watch<State>,
    /// Of its components.
    losses: Losses,
    /// The calls to its plugins.
    calls: Arc<Calls>,
    /// Those of the run that the flow belongs to.
    processors: Processors,
    memory: FlowMemory,
}

impl Control {
    pub(crate) fn new() -> Self {
        let state = State::default();
        let (phase, losses) = (AtomicU8::new(0), Losses::default());
        let (calls, processors) = (Arc::default(), Processors::default());
        let memory = FlowMemory::default();
        Self { phase, state: Watch::new(state), losses, calls, processors, memory }
    }

    /// The same of a flow whose calls to plugins are recorded in `calls`, and that shares
    /// `processors` with the other flows of its run.
    pub(crate) fn of_run(self, calls: Arc<Calls>, processors: Processors) -> Self {
        Self { calls, processors, ..self }
    }

    /// The same control, of a flow that takes its memory from `memory`.
    pub(crate) fn with_memory(self, memory: FlowMemory) -> Self {
        Self { memory, ..self }
    }

    /// Returns the memory of the flow.
    pub(crate) fn memory(&self) -> &FlowMemory {
        &self.memory
    }

    /// Events that fail without a way out.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// The calls to its plugins.
    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// The processors that the tasks of the flow run on.
    pub(crate) fn processors(&self) -> &Processors {
        &self.processors
    }

    /// Another connector of the flow.
    pub(crate) fn add(&self, connector: Arc<ConnectorHandle>) {
        self.state.update(|state| state.connectors.push(connector));
    }

    /// A connector of the flow, by its name.
    pub(crate) fn connector(&self, name: &str) -> Option<Arc<ConnectorHandle>> {
        self.state.read(|state| state.connectors.iter().find(|it| it.name() == name).cloned())
    }

    /// Returns the status of all connectors, with the sinks that their sources wait for.
    pub(crate) fn connectors(&self) -> Vec<Status> {
        self.state.read(|state| {
            let mut waits = state.waits();
            let status = |connector: &Arc<ConnectorHandle>| {
                let waits_for = waits.remove(connector.name()).unwrap_or_default();
                Status { waits_for, ..connector.status() }
            };
            state.connectors.iter().map(status).collect()
        })
    }

    /// Returns the sinks that sources wait for, each with the name of the source's connector.
    pub(crate) fn waits(&self) -> Vec<(String, Awaited)> {
        self.state.read(|state| {
            let waits = state.waits().into_iter();
            waits
                .flat_map(|(source, sinks)| sinks.into_iter().map(|it| (source.to_owned(), it)))
                .collect()
        })
    }

    /// Adds a pipeline: see [`Buffers::add`].
    pub(crate) fn add_pipeline(
        &self,
        name: &str,
        sources: Vec<String>,
        events: Box<dyn Fn() -> i64 + Send + Sync>,
    ) {
        self.state.update(|state| state.buffers.add(name, sources, events));
    }

    /// Returns the sinks that have not answered their deliveries while the flow drains, each with the number of
    /// events.
    pub(crate) fn undelivered_in_drain(&self) -> Vec<(String, usize)> {
        self.state.read(|state| {
            let drains = state.phase == Phase::Draining;
            let connectors = state.connectors.iter().filter(|_| drains);
            let events = connectors.map(|it| (it.name().to_owned(), it.in_flight()));
            events.filter(|(_, events)| *events > 0).collect()
        })
    }

    /// Adds the queue of `node`; `senders` lists the nodes that wait for its capacity.
    pub(crate) fn add_queue(
        &self,
        node: u32,
        senders: Box<dyn Fn() -> Vec<(u32, Instant)> + Send + Sync>,
    ) {
        self.state.update(|state| state.queues.add(node, senders));
    }

    /// Adds the sink `node` of `connector`, which events of `sources` (node, and name of the connector) may
    /// reach.
    pub(crate) fn add_sink(
        &self,
        node: u32,
        connector: Arc<ConnectorHandle>,
        sources: Vec<(u32, String)>,
        outage: Weak<Outage>,
    ) {
        let sink = Sink { node, connector, sources, is_ready: false, outage };
        self.state.update(|state| state.sinks.push(sink));
    }

    /// Whether the flow is in `phase` or a later one.
    pub(crate) fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) >= phase as u8
    }

    /// Goes forward to `phase`, if it is not there yet.
    pub(crate) fn advance(&self, phase: Phase) {
        self.state.update(|state| {
            state.phase = state.phase.max(phase);
            self.phase.store(state.phase as u8, Ordering::Relaxed);
            if state.phase >= Phase::Draining {
                state.connectors.iter().for_each(|connector| connector.drains());
            }
        });
    }

    /// The flow drains within this time, unless it drains already.
    pub(crate) fn drain_within(&self, deadline: Duration) {
        self.state.update(|state| _ = state.deadline.get_or_insert(deadline));
        self.advance(Phase::Draining);
    }

    /// How long the flow has to drain, where somebody has said that.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.state.read(|state| state.deadline)
    }

    /// Goes forward to a phase in which nothing is waited for, and keeps what held up a flow that was
    /// draining.
    pub(crate) fn cut_off(&self, phase: Phase) {
        if self.state.read(|state| state.phase == Phase::Draining) {
            let held_up = self.find_held_up();
            self.state.update(|state| state.held_up = held_up);
        }
        self.advance(phase);
    }

    /// The components that held up the flow when it was cut off.
    pub(crate) fn held_up(&self) -> Vec<HeldUp> {
        self.state.read(|state| state.held_up.clone())
    }

    /// Notes that a sink ended that still buffers events which it has acknowledged.
    pub(crate) fn leave_undrained(&self) {
        self.state.update(|state| state.is_undrained = true);
    }

    /// Returns whether a sink ended that still buffers events which it has acknowledged.
    pub(crate) fn is_undrained(&self) -> bool {
        self.state.read(|state| state.is_undrained)
    }

    fn find_held_up(&self) -> Vec<HeldUp> {
        let connectors = self.state.read(|state| state.connectors.clone());
        // A call says more than the state of the connector that makes it.
        let calls = self.calls.unanswered().into_iter();
        let calls = calls.map(|(component, doing)| HeldUp { component: component.into(), doing });
        let mut found: Vec<HeldUp> = calls.collect();
        for connector in connectors.iter().filter_map(|it| it.held_up(false)) {
            if found.iter().all(|known| known.component != connector.component) {
                found.push(connector);
            }
        }
        if found.is_empty() {
            found.extend(connectors.iter().filter_map(|it| it.held_up(true)));
        }
        found
    }

    /// A component has failed for good: the flow drains what it can. The first failure is kept.
    pub(crate) fn fail(&self, component: &str, error: Error) {
        self.state.update(|state| {
            let mut connectors = state.connectors.iter();
            state.ends_run |= connectors.any(|it| it.name() == component && it.ends_run());
            let failure = Failure { component: component.to_owned(), error };
            state.failure.get_or_insert(failure);
        });
        self.advance(Phase::Draining);
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.read(|state| state.failure.clone())
    }

    /// Whether a connector has failed with which the run ends.
    pub(crate) fn ends_run(&self) -> bool {
        self.state.read(|state| state.ends_run)
    }

    /// Waits until that is so.
    pub(crate) async fn until_run_ends(&self) {
        self.state.wait(|state| state.ends_run.then_some(())).await;
    }

    /// Records that the sink of `connector` was connected for the first time.
    pub(crate) fn sink_ready(&self, connector: &str) {
        self.state.update(|state| {
            let sinks = state.sinks.iter_mut().filter(|it| it.connector.name() == connector);
            sinks.for_each(|sink| sink.is_ready = true);
        });
    }

    /// Waits until all sinks that the source of the connector `source` feeds are connected, or the flow ends
    /// before that.
    pub(crate) async fn sinks_ready(&self, source: &str) {
        let ready = |state: &State| {
            state.phase > Phase::Running || !state.sinks.iter().any(|it| it.awaited_by(source))
        };
        self.state.wait(|state| ready(state).then_some(())).await;
    }

    /// Waits until the flow is in `phase` or a later one.
    pub(crate) fn reached(&self, phase: Phase) -> Reached<'_> {
        Reached { phase, waiter: self.state.waiter() }
    }

    /// How many tasks wait for a change.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting()
    }
}

/// One task's wait for a phase of its flow.
#[derive(Debug)]
pub(crate) struct Reached<'c> {
    phase: Phase,
    waiter: Waiter<'c, State>,
}

impl Reached<'_> {
    /// Ready once the flow is in the phase or a later one, however often it is asked.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let phase = self.phase;
        self.waiter.poll(context, |state| (state.phase >= phase).then_some(()))
    }
}

impl Future for Reached<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Reached::poll(&mut self, context)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Weak},
        time::Instant,
    };

    use super::{Awaited, ConnectorHandle, Control};
    use crate::engine::handle::status::State;

    #[test]
    fn sink_that_never_connected_is_awaited_by_its_own_sources_only() {
        let control = Control::new();
        let names = ["fast", "slow", "up", "down"];
        let [_, _, up, down] = names.map(|name| {
            let connector = Arc::new(ConnectorHandle::new(name.into(), None));
            control.add(connector.clone());
            connector
        });
        let (fast, slow) = ((0, "fast".to_owned()), (1, "slow".to_owned()));
        control.add_sink(2, up, vec![fast, slow.clone()], Weak::new());
        control.add_sink(3, down, vec![slow], Weak::new());
        control.sink_ready("up");
        let waits = || -> Vec<(String, Vec<String>)> {
            let waiting = control.connectors().into_iter().filter(|it| !it.waits_for.is_empty());
            let sinks = |it: Vec<Awaited>| it.into_iter().map(|it| it.sink).collect();
            waiting.map(|it| (it.connector, sinks(it.waits_for))).collect()
        };
        assert_eq!(waits(), [("slow".to_owned(), vec!["down".to_owned()])]);
        crate::executor::block_on(control.sinks_ready("fast"));
        control.sink_ready("down");
        assert!(waits().is_empty());
    }

    #[test]
    fn full_queue_of_running_or_paused_sink_is_a_reason() {
        let control = Control::new();
        let [source, sink] = ["source", "sink"].map(|name| {
            let connector = Arc::new(ConnectorHandle::new(name.into(), None));
            control.add(connector.clone());
            connector.enter(State::Running);
            connector
        });
        let idle = (7, "idle".to_owned());
        let sources = vec![(0, source.name().to_owned()), idle];
        control.add_sink(1, sink.clone(), sources, Weak::new());
        control.sink_ready("sink");
        let since = Instant::now();
        control.add_queue(1, Box::new(move || vec![(0, since)]));
        let waits = || -> Vec<_> {
            let waits = control.connectors().into_iter().flat_map(|it| it.waits_for);
            waits.map(|it| (it.sink, it.reason, it.since)).collect()
        };
        assert_eq!(waits(), [("sink".to_owned(), "queue full", since)]);
        sink.enter(State::Paused);
        assert_eq!(waits(), [("sink".to_owned(), "paused", since)]);
    }
}
