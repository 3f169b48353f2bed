//! Requests to read the flow files of a run again, and their outcomes.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use async_channel::{Receiver, Sender};
use serde::Serialize;
use tremor_pdk::lock;

/// Requests of one run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
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

/// A request that waits. All requests that wait at the same time get the same outcome.
#[derive(Debug)]
pub(crate) struct Request {
    /// `true` if nothing may be changed.
    pub(crate) dry_run: bool,
    reply: Sender<Outcome>,
}

impl Request {
    pub(crate) fn answer(&self, outcome: &Outcome) {
        // The client may be gone. The log has the outcome too.
        _ = self.reply.try_send(outcome.clone());
    }
}

/// The configuration that runs, and the last reload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReloadStatus {
    /// Number of reloads that have changed something.
    pub generation: u64,
    /// Number of reloads that were refused, or after which the previous configuration was restored.
    pub failed: u64,
    /// Outcome of the last reload, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Outcome>,
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
        }
    }

    /// Returns whether the flows are not those of the files because of an error.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Refused | Self::Restored)
    }
}

/// The change of a flow by a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowChange {
    /// Name of the flow.
    pub flow: String,
    /// Kind of the change.
    pub change: Change,
    /// Why the flow is replaced.
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
    /// [`Change::Kept`] or [`Change::Replaced`].
    pub change: Change,
    /// Why the connector is replaced.
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
    /// The flow continues, and some of its connectors are replaced.
    Changed,
    /// The flow drains, and its successor starts when it has ended. A connector is closed before its successor connects.
    Replaced,
    /// The flow starts.
    Added,
    /// The flow drains.
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
            it.reason.iter().try_for_each(|reason| write!(f, ", because {reason}"))
        })
    }
}

impl Reloads {
    /// Lets requests wait until the run has started. Call this before the files of the run are read.
    pub fn expect(&self) {
        lock(&self.0.state).stage = Stage::Starts;
    }

    /// Requests a reload, or only its plan with `dry_run`. The receiver yields the outcome; if the run is starting, it
    /// does so once the flows run. Returns `None` if the run cannot reload: it is ending, or its flows do not come from
    /// files.
    pub fn request(&self, dry_run: bool) -> Option<Receiver<Outcome>> {
        let (reply, outcome) = async_channel::bounded(1);
        let mut state = lock(&self.0.state);
        if state.stage == Stage::Closed {
            return None;
        }
        // Requests for whose outcome nobody waits, such as signals, are served with the new one.
        state.waiting.retain(|it| it.dry_run != dry_run || !it.reply.is_closed());
        state.waiting.push(Request { dry_run, reply });
        drop(state);
        self.0.changed.notify_all();
        Some(outcome)
    }

    /// Returns the number of successful reloads, and the outcome of the last reload.
    pub fn status(&self) -> ReloadStatus {
        lock(&self.0.state).status.clone()
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
        self.0.changed.notify_all();
    }

    /// Waits for requests, at most for the time `within`. Returns all that wait, or `None` once no further request is
    /// accepted.
    pub(crate) fn next(&self, within: Duration) -> Option<Vec<Request>> {
        let idle = |state: &mut State| state.stage == Stage::Serves && state.waiting.is_empty();
        let state = lock(&self.0.state);
        let waited = self.0.changed.wait_timeout_while(state, within, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.stage == Stage::Serves).then(|| std::mem::take(&mut state.waiting))
    }

    /// Records the outcome of a reload.
    pub(crate) fn record(&self, outcome: &Outcome) {
        let status = &mut lock(&self.0.state).status;
        status.generation += u64::from(outcome.result == ReloadResult::Applied);
        status.failed += u64::from(outcome.result.is_failure());
        status.last = Some(outcome.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outcome, ReloadResult, Reloads};

    #[test]
    fn request_during_the_start_is_served_after_it() {
        let reloads = Reloads::default();
        reloads.expect();
        let answer = reloads.request(false).unwrap();
        reloads.serve();
        let outcome =
            Outcome { result: ReloadResult::Unchanged, flows: Vec::new(), errors: Vec::new() };
        let requests = reloads.next(Duration::ZERO).unwrap();
        requests.iter().for_each(|it| it.answer(&outcome));
        assert_eq!(answer.try_recv(), Ok(outcome));
    }

    #[test]
    fn signals_that_wait_are_one_request() {
        let reloads = Reloads::default();
        reloads.expect();
        for _ in 0..100 {
            drop(reloads.request(false).unwrap());
        }
        let _answer = reloads.request(true).unwrap();
        reloads.serve();
        assert_eq!(reloads.next(Duration::ZERO).unwrap().len(), 2);
    }

    #[test]
    fn run_that_has_ended_or_has_no_files_accepts_no_request() {
        let reloads = Reloads::default();
        assert!(reloads.request(false).is_none());
        reloads.serve();
        let answer = reloads.request(false).unwrap();
        reloads.end();
        assert!(answer.try_recv().unwrap_err().is_closed());
        assert!(reloads.request(false).is_none());
    }
}
