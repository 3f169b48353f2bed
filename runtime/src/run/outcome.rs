//! Outcomes of reloads: how they are created and logged.

use crate::reloads::{Change, Faulty, FlowChange, Outcome, ReloadResult};

impl Outcome {
    pub(super) fn of(result: ReloadResult, flows: Vec<FlowChange>, errors: Vec<String>) -> Self {
        Self { result, flows, errors, confirm_seconds: None }
    }

    /// Creates the outcome if the files cannot be used.
    pub(super) fn refused(Faulty(error): Faulty) -> Self {
        Self::of(ReloadResult::Refused, Vec::new(), vec![error])
    }
}

/// Returns the reason why a flow is not started if the run ends.
pub(super) fn run_ends() -> Faulty {
    Faulty("error: the run ends, so no flow is started".to_owned())
}

/// Logs the outcome of a reload.
pub(super) fn log(outcome: &Outcome) {
    let Outcome { result, flows, errors, confirm_seconds } = outcome;
    let changed: Vec<_> = flows.iter().filter(|it| it.change != Change::Kept).collect();
    let kept = flows.len() - changed.len();
    let changes = changed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match result {
        ReloadResult::Refused => {
            tracing::error!("the reload was refused, nothing has changed: {}", errors.join("\n"));
        }
        ReloadResult::Restored => {
            tracing::error!(
                changes,
                "the reload has failed, and the flows of before were restored: {}",
                errors.join("\n")
            );
        }
        ReloadResult::Interrupted => {
            tracing::warn!(changes, "the run ends during the reload: {}", errors.join("\n"));
        }
        result => tracing::info!(changes, kept, "reload: {}", result.as_str()),
    }
    if let Some(seconds) = confirm_seconds {
        tracing::info!(
            seconds,
            "without `tremor reload --keep`, the flows of before return after this time"
        );
    }
}
