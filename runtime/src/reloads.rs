//! Requests to read the flow files of a run again, and their outcomes.

use std::{
    convert::Infallible,
    fmt,
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_channel::{Receiver, Sender};
use serde::Serialize;
use tremor_pdk::lock;

use crate::{clock::Clock, executor};

/// Maximum time in which a reload can be confirmed.
pub const CONFIRM_AT_MOST: Duration = Duration::from_hours(1);
/// Maximum number of requests that wait.
const WAITING_AT_MOST: usize = 256;

/// Requests of one run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Gets a message when a request is added, and when no further request is accepted.
    changed: (Sender<()>, Receiver<()>),
    /// Closed when the run was requested to end.
    ending: (Sender<Infallible>, Receiver<Infallible>),
}

impl Default for Shared {
    fn default() -> Self {
        let (changed, ending) = (async_channel::bounded(1), async_channel::bounded(1));
        Self { state: Mutex::default(), changed, ending }
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Request>,
    stage: Stage,
    status: ReloadStatus,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The run will serve requests once its flows have started. Until then they wait, because the run may have read its
    /// files already.
    Starts,
    /// A thread serves requests.
    Serves,
    /// No request is accepted.
    #[default]
    Closed,
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) action: Action,
    reply: Sender<Reply>,
}

/// Outcome of a request, or the reason why there is none.
pub type Reply = Result<Outcome, NothingToConfirm>;

/// Error of a confirmation while no reload waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no reload waits for a confirmation: it was confirmed already, or its time is over and the flows of before run"
)]
pub struct NothingToConfirm;

/// Effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Returns what a reload would change.
    Plan,
    /// Reads the files again, and changes the flows that have changed.
    Reload {
        /// Time within which the change has to be confirmed; otherwise the last confirmed configuration returns.
        /// Without this time, the change counts as confirmed.
        confirm: Option<Duration>,
    },
    /// Confirms the configuration that runs.
    Keep,
}

impl Request {
    pub(crate) fn answer(&self, reply: &Reply) {
        // The client may be gone. The log has the outcome too.
        _ = self.reply.try_send(reply.clone());
    }

    /// Returns whether both requests have the same kind. Such requests are served together if they wait one after the
    /// other.
    pub(crate) fn has_kind_of(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.action) == std::mem::discriminant(&other.action)
    }
}

/// The configuration that runs, the last reload, and the one that is in progress.
#[derive(Clone, Debug, Default)]
pub struct ReloadStatus {
    /// Number of reloads and returns that have changed the flows.
    pub generation: u64,
    /// Number of reloads that were refused, or after which the previous configuration was restored.
    pub failed: u64,
    /// Number of reloads that were not confirmed in time, so that the last confirmed configuration has returned.
    pub returned: u64,
    /// Outcome of the last reload, if there was one, and the time of its end.
    pub last: Option<(Outcome, Instant)>,
    /// The reload that is in progress.
    pub in_progress: Option<Progress>,
    /// Time at which the last confirmed configuration returns unless the one that runs is confirmed.
    pub confirm_until: Option<Instant>,
    /// Number of requests that wait.
    pub waiting: usize,
}

/// A reload that is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Begin of the reload.
    pub since: Instant,
    /// Current step.
    pub step: Step,
    /// Flow that the step is about.
    pub flow: Option<String>,
    /// Begin of the step.
    pub step_since: Instant,
}

/// A step of a reload for which the reload waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The flow files are read and checked.
    Reading,
    /// The components of a flow are created.
    Creating,
    /// A flow drains.
    Draining,
    /// The connectors of flows that continue close their connections.
    Closing,
    /// The connectors of a flow try to connect.
    Connecting,
}

impl Step {
    /// Returns the word for the log, the API and the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Creating => "creating",
            Self::Draining => "draining",
            Self::Closing => "closing",
            Self::Connecting => "connecting",
        }
    }
}

/// Result of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Effect of the reload as a whole.
    pub result: ReloadResult,
    /// The change of each flow: first the flows of the files, then those that are removed.
    pub flows: Vec<FlowChange>,
    /// Reasons why the files cannot be used, or why the previous configuration was restored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Time within which the change has to be confirmed, in seconds, rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_seconds: Option<u64>,
}

/// Effect of a reload as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadResult {
    /// The reload was only planned, and nothing was changed.
    Planned,
    /// The files contain what runs already.
    Unchanged,
    /// The flows are those of the files.
    Applied,
    /// The files cannot be used, so nothing was changed.
    Refused,
    /// A changed flow, an added one or a changed connector failed, so the flows are those from before the reload. Flows that
    /// the reload had replaced were started again, and connectors were handed back.
    Restored,
    /// The run was ended during the reload. Flows that had drained by then were not started.
    Interrupted,
    /// The configuration that runs was confirmed.
    Confirmed,
    /// The reload was not confirmed in time, so the flows are those of the last confirmed configuration.
    Returned,
}

impl ReloadResult {
    /// Returns the word for the log, the API and the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Unchanged => "unchanged",
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Restored => "restored",
            Self::Interrupted => "interrupted",
            Self::Confirmed => "confirmed",
            Self::Returned => "returned",
        }
    }

    /// Returns whether the flows are not those of the files because of an error.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Refused | Self::Restored | Self::Interrupted)
    }

    /// Returns whether the flows are not those of the files.
    pub fn differs_from_files(self) -> bool {
        self.is_failure() || self == Self::Returned
    }
}

/// The change of a flow by a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowChange {
    /// Name of the flow.
    pub flow: String,
    /// Kind of the change.
    pub change: Change,
    /// Why the flow is replaced, or the differences of links, pipelines and the set of connectors that the flow adopts while
    /// it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The connectors of a flow that is changed while it runs. Empty for other changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connectors: Vec<ConnectorChange>,
}

/// The change of a connector in a flow that continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectorChange {
    /// Name of the connector.
    pub connector: String,
    /// [`Change::Kept`], [`Change::Replaced`], [`Change::Added`] or [`Change::Removed`].
    pub change: Change,
    /// Why the connector is replaced, or what a removed one has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Text with all errors because of which a flow cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Faulty(pub String);

/// Kind of a change of a flow or a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The flow or connector continues and notices nothing.
    Kept,
    /// The flow continues, and some of its connectors, links or pipelines change.
    Changed,
    /// The flow drains, and its successor starts when it has ended. A connector is closed before its successor connects.
    Replaced,
    /// The flow starts, or a connector joins its flow.
    Added,
    /// The flow drains, or a connector leaves its flow.
    Removed,
}

impl Change {
    /// Returns the word for the log, the API and the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Changed => "changed",
            Self::Replaced => "replaced",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for FlowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flow, change, reason, connectors } = self;
        write!(f, "{} `{flow}`", change.as_str())?;
        reason.iter().try_for_each(|reason| write!(f, ": {reason}"))?;
        let replaced = connectors.iter().filter(|it| it.change != Change::Kept);
        replaced.enumerate().try_for_each(|(at, it)| {
            let before = if at == 0 { ":" } else { "," };
            write!(f, "{before} {} `{}`", it.change.as_str(), it.connector)?;
            let word = if it.change == Change::Removed { "" } else { "because " };
            it.reason.iter().try_for_each(|reason| write!(f, ", {word}{reason}"))
        })
    }
}

impl Reloads {
    /// Lets requests wait until the run has started. Call this before the files of the run are read.
    pub fn expect(&self) {
        lock(&self.0.state).stage = Stage::Starts;
    }

    /// Requests an action. The receiver yields its outcome; if the run is starting, it does so once the flows run. Returns
    /// `None` if the run cannot reload: it is ending, its flows do not come from files, or too many requests wait.
    pub fn request(&self, action: Action) -> Option<Receiver<Reply>> {
        let (reply, outcome) = async_channel::bounded(1);
        let mut state = lock(&self.0.state);
        // Signals arrive in any number, and nobody waits for their outcome.
        if state.waiting.last().is_some_and(|it| it.action == action && it.reply.is_closed()) {
            state.waiting.pop();
        }
        if state.stage == Stage::Closed || state.waiting.len() >= WAITING_AT_MOST {
            return None;
        }
        state.waiting.push(Request { action, reply });
        drop(state);
        self.notify();
        Some(outcome)
    }

    /// Returns the status of the reloads of the run.
    pub fn status(&self) -> ReloadStatus {
        let state = lock(&self.0.state);
        ReloadStatus { waiting: state.waiting.len(), ..state.status.clone() }
    }

    /// Accepts requests from now on.
    pub(crate) fn serve(&self) {
        lock(&self.0.state).stage = Stage::Serves;
    }

    /// Accepts no further requests. Requests that wait get no outcome.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.0.state);
        state.stage = Stage::Closed;
        state.waiting.clear();
        drop(state);
        self.notify();
    }

    fn notify(&self) {
        // If the channel is full, the receiver is about to be woken.
        _ = self.0.changed.0.try_send(());
    }

    /// Waits for requests, at most for the time `within`. Returns all that wait, or `None` once no further request is
    /// accepted.
    pub(crate) fn next(&self, within: Duration, clock: &Clock) -> Option<Vec<Request>> {
        let mut late = pin!(clock.sleep(within));
        loop {
            let changed = async {
                // The sender is part of the same value.
                _ = self.0.changed.1.recv().await;
                false
            };
            let late = async {
                late.as_mut().await;
                true
            };
            let mut state = lock(&self.0.state);
            if state.stage != Stage::Serves {
                return None;
            }
            if !state.waiting.is_empty() {
                return Some(std::mem::take(&mut state.waiting));
            }
            drop(state);
            if executor::block_on(executor::first(changed, late)) {
                return Some(Vec::new());
            }
        }
    }

    /// Ends the waits of a reload, because the run was requested to end.
    pub(crate) fn interrupt(&self) {
        self.0.ending.0.close();
    }

    /// Completes once the run was requested to end.
    pub(crate) async fn interrupted(&self) {
        _ = self.0.ending.1.recv().await;
    }

    /// Records the step in which a reload is, with which the reload begins if none is in progress.
    pub(crate) fn enter(&self, step: Step, flow: Option<&str>, now: Instant) {
        let progress = &mut lock(&self.0.state).status.in_progress;
        let since = progress.as_ref().map_or(now, |it| it.since);
        let is_same = |it: &Progress| it.step == step && it.flow.as_deref() == flow;
        if !progress.as_ref().is_some_and(is_same) {
            let flow = flow.map(str::to_owned);
            *progress = Some(Progress { since, step, flow, step_since: now });
        }
    }

    /// Returns the reload that is in progress.
    pub(crate) fn in_progress(&self) -> Option<Progress> {
        lock(&self.0.state).status.in_progress.clone()
    }

    /// Records the outcome of a reload, which has ended.
    pub(crate) fn record(&self, outcome: &Outcome, now: Instant) {
        let status = &mut lock(&self.0.state).status;
        let has_returned = outcome.result == ReloadResult::Returned;
        status.generation += u64::from(has_returned || outcome.result == ReloadResult::Applied);
        status.failed += u64::from(outcome.result.is_failure());
        status.returned += u64::from(has_returned);
        status.last = Some((outcome.clone(), now));
        status.in_progress = None;
    }

    /// Records until when the configuration that runs has to be confirmed, if it has to.
    pub(crate) fn set_confirmation(&self, until: Option<Instant>) {
        lock(&self.0.state).status.confirm_until = until;
    }
}

#[cfg(test)]
mod tests;
