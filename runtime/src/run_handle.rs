//! The handle that controls a run: it ends flows, pauses and restarts their connectors, and returns their status.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tremor_pdk::lock;

use crate::clock::Clock;
use crate::{
    engine::{self, Awaited, FlowState, State},
    instance_metrics::{InputSize, InstanceMetrics},
    reloads::Reloads,
    watchdog::GivenUp,
};

/// Handle of a run. Clones control the same run.
#[derive(Clone, Debug, Default)]
pub struct RunHandle {
    run: Arc<Mutex<Run>>,
    metrics: InstanceMetrics,
    reloads: Reloads,
}

#[derive(Debug, Default)]
struct Run {
    flows: Vec<engine::FlowHandle>,
    /// The request so far that has the greatest effect.
    requested: Option<Request>,
    /// `true` if the duration of deliveries has to be measured.
    is_watched: bool,
    /// `true` once the flows of the beginning were started. Later, a reload may add and remove flows.
    has_begun: bool,
}

/// States of connectors that are connected, or that were connected before they ended.
const CONNECTED: [State; 4] = [State::Running, State::Paused, State::Draining, State::Stopped];

/// A request to all flows, including flows that are added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Drain,
    Stop,
    Halt,
}

impl RunHandle {
    /// Drains all flows: sources stop reading, and events in flight are still delivered.
    pub fn drain(&self) {
        self.request(Request::Drain);
    }

    /// Stops all flows immediately.
    pub fn stop(&self) {
        self.request(Request::Stop);
    }

    /// Stops all flows immediately. Does not wait for components that do not respond.
    pub fn halt(&self) {
        self.request(Request::Halt);
    }

    /// Pauses a connector of a running flow. Returns whether the connector exists.
    ///
    /// Calls and deliveries in flight are completed first. Queued events stay in their queues. No further event passes
    /// the connector until it is [resumed](RunHandle::resume), or until its flow drains.
    pub fn pause(&self, flow: &str, connector: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.pause(connector))
    }

    /// Resumes a connector that was paused. Returns whether the connector exists.
    pub fn resume(&self, flow: &str, connector: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.resume(connector))
    }

    /// Restarts a connector of a running flow immediately. Returns whether the connector exists.
    ///
    /// A new instance replaces the current one. Deliveries that the sink has not acknowledged are repeated. The restart
    /// does not use up the limit of restarts after failures. A codec or a processor that has panicked too often is
    /// called again.
    pub fn restart(&self, flow: &str, connector: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.restart(connector))
    }

    /// Lets the operators of a pipeline of a running flow be called again that have panicked too often. Returns whether
    /// the pipeline exists.
    pub fn restart_pipeline(&self, flow: &str, pipeline: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.restart_pipeline(pipeline))
    }

    /// Drains one flow while other flows continue. Returns whether the flow exists.
    ///
    /// The sources of the flow stop reading, and `deadline` is the time limit for delivering events in flight. If the
    /// flow is draining already, its time limit stays unchanged.
    pub fn drain_flow(&self, flow: &str, deadline: Duration) -> bool {
        self.flow(flow).map(|it| it.drain_within(deadline)).is_some()
    }

    /// Returns whether a running flow is draining.
    pub(crate) fn is_draining(&self, flow: &str) -> bool {
        self.flow(flow).is_some_and(|it| it.is_draining())
    }

    /// Stops one flow immediately while other flows continue. Returns whether the flow exists.
    pub fn stop_flow(&self, flow: &str) -> bool {
        self.flow(flow).map(|it| it.stop()).is_some()
    }

    /// Returns the status of the connectors of a running flow, or `None` if there is no such flow.
    pub fn connectors(&self, flow: &str) -> Option<Vec<engine::Status>> {
        Some(self.flow(flow)?.connectors())
    }

    /// Returns the status of all flows of the run, in the order in which they were started.
    pub fn flows(&self) -> Vec<engine::FlowStatus> {
        let flows = lock(&self.run).flows.clone();
        flows.iter().map(engine::FlowHandle::status).collect()
    }

    /// Starts to measure the duration of deliveries.
    pub(crate) fn watch_deliveries(&self) {
        let mut state = lock(&self.run);
        state.is_watched = true;
        state.flows.iter().for_each(engine::FlowHandle::watch_deliveries);
    }

    /// Returns the flow with this name.
    pub(crate) fn flow(&self, name: &str) -> Option<engine::FlowHandle> {
        lock(&self.run).flows.iter().find(|flow| flow.flow() == name).cloned()
    }

    /// Returns the reasons why a run of `flows` flows is not ready for events. The list is empty once all flows run,
    /// all their connectors are connected, no pull or delivery is being retried, no source has waited for memory for
    /// five seconds, and all parts are still called.
    pub fn awaited(&self, flows: usize) -> Vec<String> {
        let running = self.flows();
        let mut awaited = Vec::new();
        if self.is_starting(flows) {
            awaited.push("the flows are starting".to_owned());
        }
        for flow in &running {
            if flow.state == FlowState::Stopped {
                // A flow that has stopped has completed its work.
                continue;
            }
            if flow.state != FlowState::Running {
                awaited.push(format!("the flow `{}` is {}", flow.name, flow.state.as_str()));
                continue;
            }
            for GivenUp { component, part, .. } in &flow.given_up {
                let flow = &flow.name;
                awaited.push(format!("{part} of `{component}` of `{flow}` is not called again"));
            }
            for engine::Status { connector, state, since, waits_for, .. } in &flow.connectors {
                let lacks = waits_for.iter().find(|it| it.reason == engine::MEMORY);
                let waited = lacks.map(|it| (it, Clock::default().elapsed(it.since)));
                if let Some((Awaited { sink, .. }, waited)) =
                    waited.filter(|(_, waited)| *waited >= engine::waiting::LONG)
                {
                    let (flow, seconds) = (&flow.name, waited.as_secs());
                    awaited.push(format!(
                        "the source `{connector}` of `{flow}` has waited for {seconds} s for memory that `{sink}` uses"
                    ));
                }
                if !CONNECTED.contains(state) {
                    let (flow, seconds) = (&flow.name, Clock::default().elapsed(*since).as_secs());
                    awaited.push(format!(
                        "the connector `{connector}` of `{flow}` has been {state} for {seconds} s"
                    ));
                }
            }
        }
        awaited
    }

    /// Returns whether a run of `flows` flows has started: all flows have begun, not all of them have failed, and each
    /// connector of the flows that have not failed was tried. A connector was tried once it has connected, or once its
    /// first attempt to connect has failed or has taken more than ten seconds.
    pub fn has_started(&self, flows: usize) -> bool {
        let begun = self.flows();
        let mut not_failed = begun.iter().filter(|it| it.state != FlowState::Failed).peekable();
        !self.is_starting(flows)
            && (flows == 0 || not_failed.peek().is_some())
            && not_failed.all(|flow| flow.connectors.iter().all(|it| it.is_tried))
    }

    /// Returns whether a run that begins with `flows` flows has not started all of them yet.
    pub(crate) fn is_starting(&self, flows: usize) -> bool {
        let state = lock(&self.run);
        !state.has_begun && state.flows.len() < flows
    }

    /// Records that the flows with which the run begins were started.
    pub(crate) fn begin(&self) {
        lock(&self.run).has_begun = true;
    }

    /// Returns whether a flow of the run is draining or was stopped on request.
    pub fn ends(&self) -> bool {
        lock(&self.run).requested.is_some()
    }

    /// Returns the sizes of the inputs of sources that report them with the gauge `input_bytes`.
    pub fn input_sizes(&self) -> Vec<InputSize> {
        self.metrics.input_sizes()
    }

    /// Returns the metrics that instances of components have registered.
    pub(crate) fn metrics(&self) -> &InstanceMetrics {
        &self.metrics
    }

    fn request(&self, request: Request) {
        let mut state = lock(&self.run);
        state.requested = state.requested.max(Some(request));
        state.flows.iter().for_each(|flow| request.of(flow));
        self.reloads.interrupt();
    }

    /// Returns the requests to read the flow files of the run again.
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// Returns the handles of all flows.
    pub(crate) fn handles(&self) -> Vec<engine::FlowHandle> {
        lock(&self.run).flows.clone()
    }

    /// Adds a flow, which replaces the one that has the same name.
    pub(crate) fn add(&self, flow: engine::FlowHandle) {
        let mut state = lock(&self.run);
        if let Some(request) = state.requested {
            request.of(&flow);
        }
        if state.is_watched {
            flow.watch_deliveries();
        }
        match state.flows.iter_mut().find(|known| known.flow() == flow.flow()) {
            Some(known) => *known = flow,
            None => state.flows.push(flow),
        }
    }

    /// Removes the flow called `name`, which has ended.
    pub(crate) fn remove(&self, name: &str) {
        lock(&self.run).flows.retain(|flow| flow.flow() != name);
    }
}

impl Request {
    fn of(self, flow: &engine::FlowHandle) {
        match self {
            Self::Drain => flow.drain(),
            Self::Stop => flow.stop(),
            Self::Halt => flow.halt(),
        }
    }
}
