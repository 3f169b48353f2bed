//! The status of a flow. Reading it does not slow down the tasks of the flow.

use std::collections::BTreeMap;

use crate::engine::{
    control::{Control, Failure, Phase},
    handle::status::Status,
    tracking::stats::{Component, FlowCounters},
};
use crate::{memory::MemoryStatus, watchdog::GivenUp};

/// The status of a flow at one moment.
#[derive(Clone, Debug)]
pub struct FlowStatus {
    /// Name of the flow.
    pub name: String,
    /// State of the flow.
    pub state: FlowState,
    /// Status of the connectors, in the order of the flow file.
    pub connectors: Vec<Status>,
    /// Components with the numbers of their events: sources first, then pipelines, then sinks.
    pub components: Vec<Component>,
    /// The first permanent failure of a component, if any.
    pub failure: Option<Failure>,
    /// Parts of components that have panicked too often, and are not called again.
    pub given_up: Vec<GivenUp>,
    /// Number of long turns, by component and task. A turn is one poll of a task of the flow. It is long if it took
    /// more than 100 ms.
    pub long_turns: BTreeMap<(Box<str>, Box<str>), u64>,
    /// Memory of the flow's components.
    pub memory: MemoryStatus,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// Events flow, or will flow once the connectors are connected.
    Running,
    /// Sources read nothing more. Events in flight are still delivered.
    Draining,
    /// The flow has ended without a failure.
    Stopped,
    /// The flow has ended because a component failed permanently.
    Failed,
}

impl FlowState {
    /// Lists all states, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Running, Self::Draining, Self::Stopped, Self::Failed];

    /// Returns the name of the state in the admin API and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Returns whether a flow in this state has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }
}

impl FlowStatus {
    pub(crate) fn of(name: &str, control: &Control, counters: &FlowCounters) -> Self {
        let connectors = control.connectors();
        let is_over = connectors.iter().all(|it| it.state.is_over());
        let failure = control.failure();
        let state = match (&failure, is_over) {
            (Some(_), true) => FlowState::Failed,
            (None, true) => FlowState::Stopped,
            _ if control.has_reached(Phase::Draining) => FlowState::Draining,
            _ => FlowState::Running,
        };
        let mut components = counters.components();
        // The order of roles is the direction of events: source, pipeline, sink.
        components.sort_by_key(|component| component.kind);
        let (given_up, long_turns) = (control.calls().given_up(), control.calls().long_turns());
        Self {
            name: name.to_owned(),
            state,
            connectors,
            components,
            failure,
            given_up,
            long_turns,
            memory: control.memory().status(),
        }
    }
}
