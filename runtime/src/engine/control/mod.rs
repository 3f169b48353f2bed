//! State that all tasks of a flow share: the phase and the failure of the flow, its connectors, and the reasons why
//! sources wait.

pub(crate) mod buffers;
mod changes;
pub(crate) mod ends;
pub(crate) mod interrupt;
pub(crate) mod last_call;
pub(crate) mod overrun;
pub(crate) mod queues;
mod sink;

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

pub(crate) use self::sink::Treatment;
use crate::engine::{
    control::{buffers::Buffers, ends::Ends, queues::Queues, sink::Sink},
    handle::{
        ConnectorHandle,
        status::{Awaited, Bound, Status, Unfinished},
    },
    logging::losses::Losses,
    processors::Processors,
    retry::breaker::Outage,
    sync::watch::{Waiter, Watch},
};
use crate::{clock::Clock, memory::FlowMemory, watchdog::Calls};

/// The phase of a flow. A flow never returns to an earlier phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Events flow.
    #[default]
    Running,
    /// Sources read nothing more. Events in flight are still delivered.
    Draining,
    /// Tasks end without waiting for events in flight.
    Stopped,
    /// Tasks that have not ended are abandoned.
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
    /// Time limit of the drain, if a request has set one.
    deadline: Option<Duration>,
    /// `true` once a connector has failed whose failure ends the whole run.
    ends_run: bool,
    connectors: Vec<Arc<ConnectorHandle>>,
    unfinished: Vec<Unfinished>,
    /// `true` if a sink ended while it buffered events that it had acknowledged.
    is_undrained: bool,
    ends: Ends,
}

impl State {
    /// Returns the components that sources wait for, by the name of the source's connector. `memory` is the memory of
    /// the flow.
    fn waits(&self, memory: &FlowMemory) -> BTreeMap<&str, Vec<Awaited>> {
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
            let Some((since, bound)) = connector.bound() else { continue };
            let source = connector.name();
            if found.contains_key(source) {
                continue;
            }
            let limit = match bound {
                Bound::InFlight(limit) => limit,
                Bound::Memory => {
                    let holders = memory.holders().into_iter();
                    let waits =
                        holders.map(|(name, bytes)| Awaited::for_memory(name, bytes, since));
                    found.insert(source, waits.collect());
                    continue;
                }
            };
            let sinks = self.sinks.iter().filter(|it| it.feeds(source) && it.has_events());
            let sinks = sinks.map(|it| it.connector.name());
            let mut names = self.buffers.filled_by(source).chain(sinks).peekable();
            // If no pipeline and no sink has the events, the tasks of the source have them.
            let own = names.peek().is_none().then_some(source);
            let awaited = |name: &str| Awaited::at_pull_limit(name, since, limit);
            found.insert(source, names.chain(own).map(awaited).collect());
        }
        found
    }

    fn is_over(&self, connector: &str) -> bool {
        let mut connectors = self.connectors.iter();
        connectors.any(|it| it.name() == connector && it.status().state.is_over())
    }
}

/// The failure of a flow.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Name of the component that failed.
    pub component: String,
    /// Error of the component.
    pub error: Error,
}

/// The object through which the tasks of a flow share its state.
#[derive(Debug)]
pub(crate) struct Control {
    /// A copy of [`State::phase`], which is read once a batch without a lock.
    phase: AtomicU8,
    state: Watch<State>,
    /// Failed events that are not logged yet.
    losses: Losses,
    /// Records of the calls to the flow's plugins.
    calls: Arc<Calls>,
    /// Processors of the run that the flow belongs to.
    processors: Processors,
    memory: FlowMemory,
    clock: Clock,
}

impl Control {
    /// Creates the control of a flow that takes the time from `clock`.
    pub(crate) fn new(clock: Clock) -> Self {
        let (phase, state) = (AtomicU8::new(0), Watch::new(State::default()));
        let (losses, memory) = (Losses::new(clock.clone()), FlowMemory::default());
        let (calls, processors) = (Arc::default(), Processors::default());
        Self { phase, state, losses, calls, processors, memory, clock }
    }

    /// Sets the records of the flow's calls to plugins, the processors that the flow shares with the other flows of
    /// its run, and the memory of the flow.
    pub(crate) fn of_run(
        self,
        calls: Arc<Calls>,
        processors: Processors,
        memory: FlowMemory,
    ) -> Self {
        Self { calls, processors, memory, ..self }
    }

    /// Returns the clock from which the tasks of the flow take the time.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the memory of the flow.
    pub(crate) fn memory(&self) -> &FlowMemory {
        &self.memory
    }

    /// Returns the log of events that fail without a linked `err` port.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Returns the records of the calls to the flow's plugins.
    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// Returns the processors that the tasks of the flow run on.
    pub(crate) fn processors(&self) -> &Processors {
        &self.processors
    }

    /// Adds a connector of the flow.
    pub(crate) fn add(&self, connector: Arc<ConnectorHandle>) {
        self.state.update(|state| state.connectors.push(connector));
    }

    /// Returns the handle of the connector called `name`, if there is one.
    pub(crate) fn connector(&self, name: &str) -> Option<Arc<ConnectorHandle>> {
        self.state.read(|state| state.connectors.iter().find(|it| it.name() == name).cloned())
    }

    /// Returns the status of all connectors, including the components that their sources wait for.
    pub(crate) fn connectors(&self) -> Vec<Status> {
        self.state.read(|state| {
            let mut waits = state.waits(&self.memory);
            let status = |connector: &Arc<ConnectorHandle>| {
                let waits_for = waits.remove(connector.name()).unwrap_or_default();
                Status { waits_for, ..connector.status() }
            };
            state.connectors.iter().map(status).collect()
        })
    }

    /// Returns the components that sources wait for, each after the name of the source's connector.
    pub(crate) fn waits(&self) -> Vec<(String, Awaited)> {
        self.state.read(|state| {
            let waits = state.waits(&self.memory).into_iter();
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

    /// Returns the sinks whose deliveries are unanswered, each with the number of events, if the flow drains.
    pub(crate) fn undelivered_in_drain(&self) -> Vec<(String, usize)> {
        self.state.read(|state| {
            let drains = state.phase == Phase::Draining;
            let connectors = state.connectors.iter().filter(|_| drains);
            let events = connectors.map(|it| (it.name().to_owned(), it.in_flight()));
            events.filter(|(_, events)| *events > 0).collect()
        })
    }

    /// Adds the queue of `node`. `senders` returns the nodes that wait for capacity of the queue.
    pub(crate) fn add_queue(
        &self,
        node: u32,
        senders: Box<dyn Fn() -> Vec<(u32, Instant)> + Send + Sync>,
    ) {
        self.state.update(|state| state.queues.add(node, senders));
    }

    /// Adds the sink `node` of `connector`. `sources` lists the sources whose events may reach the sink, each with its
    /// node and the name of its connector.
    pub(crate) fn add_sink(
        &self,
        node: u32,
        connector: Arc<ConnectorHandle>,
        sources: Vec<(u32, String)>,
        outage: Weak<Outage>,
        Treatment { when_full, is_stored, has_senders }: Treatment,
    ) {
        let sink = Sink {
            node,
            connector,
            sources,
            is_ready: !when_full.blocks(),
            when_full,
            is_stored,
            has_senders,
            ended_at: None,
            gives_up: false,
            has_ended: false,
            outage,
        };
        self.state.update(|state| state.sinks.push(sink));
    }

    /// Returns whether the flow is in `phase` or a later one.
    pub(crate) fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) >= phase as u8
    }

    /// Enters `phase`, unless the flow is in it or in a later one.
    pub(crate) fn advance(&self, phase: Phase) {
        self.state.update(|state| {
            state.phase = state.phase.max(phase);
            self.phase.store(state.phase as u8, Ordering::Relaxed);
            if state.phase >= Phase::Draining {
                state.connectors.iter().for_each(|connector| connector.drains());
            }
        });
    }

    /// Drains the flow within `deadline`. The deadline has no effect on a flow that already drains.
    pub(crate) fn drain_within(&self, deadline: Duration) {
        self.state.update(|state| _ = state.deadline.get_or_insert(deadline));
        self.advance(Phase::Draining);
    }

    /// Returns the time limit of the drain, if a request has set one.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.state.read(|state| state.deadline)
    }

    /// Enters `phase`, in which tasks do not wait for events in flight. If the flow is draining, first records the
    /// components that delay its end.
    pub(crate) fn cut_off(&self, phase: Phase) {
        if self.state.read(|state| state.phase == Phase::Draining) {
            let unfinished = self.find_unfinished();
            self.state.update(|state| state.unfinished = unfinished);
        }
        self.advance(phase);
    }

    /// Returns the components that delayed the end of the flow when it was cut off.
    pub(crate) fn unfinished(&self) -> Vec<Unfinished> {
        self.state.read(|state| state.unfinished.clone())
    }

    /// Records that a sink ended while it buffered events that it had acknowledged.
    pub(crate) fn leave_undrained(&self) {
        self.state.update(|state| state.is_undrained = true);
    }

    /// Returns whether a sink ended while it buffered events that it had acknowledged.
    pub(crate) fn is_undrained(&self) -> bool {
        self.state.read(|state| state.is_undrained)
    }

    fn find_unfinished(&self) -> Vec<Unfinished> {
        let connectors = self.state.read(|state| state.connectors.clone());
        // An unanswered call is more specific than the state of its connector, so the call takes precedence.
        let calls = self.calls.unanswered().into_iter();
        let calls =
            calls.map(|(component, doing)| Unfinished { component: component.into(), doing });
        let mut found: Vec<Unfinished> = calls.collect();
        for connector in connectors.iter().filter_map(|it| it.unfinished(false)) {
            if found.iter().all(|known| known.component != connector.component) {
                found.push(connector);
            }
        }
        if found.is_empty() {
            found.extend(connectors.iter().filter_map(|it| it.unfinished(true)));
        }
        found
    }

    /// Records that a component has failed permanently, and drains the flow. Only the first failure is kept.
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

    /// Returns whether a connector has failed whose failure ends the whole run.
    pub(crate) fn ends_run(&self) -> bool {
        self.state.read(|state| state.ends_run)
    }

    /// Waits until a connector has failed whose failure ends the whole run.
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

    /// Waits until all sinks that the source of the connector `source` feeds were connected once, or until the flow
    /// drains.
    pub(crate) async fn sinks_ready(&self, source: &str) {
        let ready = |state: &State| {
            state.phase > Phase::Running || !state.sinks.iter().any(|it| it.awaited_by(source))
        };
        self.state.wait(|state| ready(state).then_some(())).await;
    }

    /// Returns a future that waits until the flow is in `phase` or a later one.
    pub(crate) fn reached(&self, phase: Phase) -> Reached<'_> {
        Reached { phase, waiter: self.state.waiter() }
    }

    /// Returns the number of tasks that wait for a change.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting()
    }
}

/// The registration of a task that waits for a phase of its flow.
#[derive(Debug)]
pub(crate) struct Reached<'c> {
    phase: Phase,
    waiter: Waiter<'c, State>,
}

impl Reached<'_> {
    /// Completes once the flow is in the phase or a later one. May be polled again after that.
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
    use std::sync::{Arc, Weak};

    use super::{Awaited, Clock, ConnectorHandle, Control, Treatment};
    use crate::{engine::handle::status::State, flow::WhenFull};

    fn blocks() -> Treatment {
        let has_senders = Box::new(|| true);
        Treatment { when_full: WhenFull::Block, is_stored: false, has_senders }
    }

    #[test]
    fn sink_that_never_connected_is_awaited_by_its_own_sources_only() {
        let control = Control::new(Clock::default());
        let names = ["fast", "slow", "up", "down"];
        let [_, _, up, down] = names.map(|name| {
            let connector = Arc::new(ConnectorHandle::new(name.into(), None, Clock::default()));
            control.add(connector.clone());
            connector
        });
        let (fast, slow) = ((0, "fast".to_owned()), (1, "slow".to_owned()));
        control.add_sink(2, up, vec![fast, slow.clone()], Weak::new(), blocks());
        control.add_sink(3, down, vec![slow], Weak::new(), blocks());
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
        let control = Control::new(Clock::default());
        let [source, sink] = ["source", "sink"].map(|name| {
            let connector = Arc::new(ConnectorHandle::new(name.into(), None, Clock::default()));
            control.add(connector.clone());
            connector.enter(State::Running);
            connector
        });
        let idle = (7, "idle".to_owned());
        let sources = vec![(0, source.name().to_owned()), idle];
        control.add_sink(1, sink.clone(), sources, Weak::new(), blocks());
        control.sink_ready("sink");
        let since = control.clock().now();
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
