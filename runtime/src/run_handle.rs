//! The object that controls a run: it ends flows, pauses and restarts connectors of them, and reports their status.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    engine::{self, FlowState, State},
    instance_metrics::{InputSize, InstanceMetrics},
    lock::lock,
};

/// Controls a run. Clones control the same run.
#[derive(Clone, Debug, Default)]
pub struct RunHandle {
    run: Arc<Mutex<Run>>,
    metrics: InstanceMetrics,
}

#[derive(Debug, Default)]
struct Run {
    flows: Vec<engine::FlowHandle>,
    /// The most that was asked for.
    asked: Option<Ask>,
    /// Whether somebody may ask how long deliveries take.
    is_watched: bool,
}

/// The states of connectors that are connected, or that were and have nothing more to do.
const CONNECTED: [State; 4] = [State::Running, State::Paused, State::Draining, State::Stopped];

/// What is asked of flows, and then of those that are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ask {
    Drain,
    Stop,
    Halt,
}

impl RunHandle {
    /// Sources bring nothing more; what is under way still arrives.
    pub fn drain(&self) {
        self.ask(Ask::Drain);
    }

    /// Everything ends where it is.
    pub fn stop(&self) {
        self.ask(Ask::Stop);
    }

    /// Everything ends where it is, and nobody waits for what does not.
    pub fn halt(&self) {
        self.ask(Ask::Halt);
    }

    /// Pauses a connector of a running flow: no event flows through it until it is
    /// [resumed](RunHandle::resume), or its flow drains. What it has under way ends before that. Whether there
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

    /// Returns the states of the connectors of a running flow, or none if there is no such flow.
    pub fn connectors(&self, flow: &str) -> Option<Vec<engine::Status>> {
        Some(self.flow(flow)?.connectors())
    }

    /// The flows of the run as they stand, in the order in which they began.
    pub fn flows(&self) -> Vec<engine::FlowStatus> {
        let flows = lock(&self.run).flows.clone();
        flows.iter().map(engine::FlowHandle::status).collect()
    }

    /// Somebody may ask how long deliveries take: they are counted from now on.
    pub(crate) fn watch_deliveries(&self) {
        let mut state = lock(&self.run);
        state.is_watched = true;
        state.flows.iter().for_each(engine::FlowHandle::watch_deliveries);
    }

    /// A flow of the run.
    pub(crate) fn flow(&self, name: &str) -> Option<engine::FlowHandle> {
        lock(&self.run).flows.iter().find(|flow| flow.flow() == name).cloned()
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
        lock(&self.run).asked.is_some()
    }

    /// The sizes of the inputs of sources that know them: those that register the gauge `input_bytes`.
    pub fn input_sizes(&self) -> Vec<InputSize> {
        self.metrics.input_sizes()
    }

    /// Returns the metrics that instances of components have registered.
    pub(crate) fn metrics(&self) -> &InstanceMetrics {
        &self.metrics
    }

    fn ask(&self, ask: Ask) {
        let mut state = lock(&self.run);
        state.asked = state.asked.max(Some(ask));
        state.flows.iter().for_each(|flow| ask.of(flow));
    }

    pub(crate) fn add(&self, flow: engine::FlowHandle) {
        let mut state = lock(&self.run);
        if let Some(ask) = state.asked {
            ask.of(&flow);
        }
        if state.is_watched {
            flow.watch_deliveries();
        }
        state.flows.push(flow);
    }
}

impl Ask {
    fn of(self, flow: &engine::FlowHandle) {
        match self {
            Self::Drain => flow.drain(),
            Self::Stop => flow.stop(),
            Self::Halt => flow.halt(),
        }
    }
}
