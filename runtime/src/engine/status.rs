//! A flow as it stands: looked at from outside, at no cost to its tasks.

use std::collections::BTreeMap;

use crate::engine::{
    account::stats::{Books, Component},
    control::{Control, Failure, Phase},
    handle::status::Status,
};
use crate::memory::MemoryStatus;

/// A flow as it stands.
#[derive(Clone, Debug)]
pub struct FlowStatus {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: FlowState,
    /// Its connectors, in the order of the flow file.
    pub connectors: Vec<Status>,
    /// Its components, sources first, and what became of their events.
    pub components: Vec<Component>,
    /// What failed it first, if anything did.
    pub failure: Option<Failure>,
    /// Number of turns of its tasks that took more than 100 ms, by component and task.
    pub long_turns: BTreeMap<(Box<str>, Box<str>), u64>,
    /// Memory of its components.
    pub memory: MemoryStatus,
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// Events flow, or will when connectors are connected.
    Running,
    /// Sources bring nothing more; what is under way still arrives.
    Draining,
    /// It has ended.
    Stopped,
    /// It has ended because a component failed for good.
    Failed,
}

impl FlowState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Running, Self::Draining, Self::Stopped, Self::Failed];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }
}

impl FlowStatus {
    pub(crate) fn of(name: &str, control: &Control, books: &Books) -> Self {
        let connectors = control.connectors();
        let is_over = connectors.iter().all(|it| it.state.is_over());
        let failure = control.failure();
        let state = match (&failure, is_over) {
            (Some(_), true) => FlowState::Failed,
            (None, true) => FlowState::Stopped,
            _ if control.has_reached(Phase::Draining) => FlowState::Draining,
            _ => FlowState::Running,
        };
        let mut components = books.components();
        // As events go.
        components.sort_by_key(|component| component.kind);
        let long_turns = control.calls().long_turns();
        Self {
            name: name.to_owned(),
            state,
            connectors,
            components,
            failure,
            long_turns,
            memory: control.memory().status(),
        }
    }
}
