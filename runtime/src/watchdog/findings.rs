//! Findings of the watchdog, and their log lines.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    lasted,
    record::{Call, Record},
};
use crate::log;

/// Kind of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The thread has been in the same poll of the call for this time.
    Blocks(Duration),
    /// The turn has lasted for this time. Meanwhile this call into a plugin was made, maybe one of many.
    Calls(Duration, String),
    /// The call is unanswered, and has been polled again and again for this time.
    Busy(Duration),
    /// The call has been unanswered for this time.
    Unanswered(Duration),
    /// The delivery has been unanswered for this time since a flush returned.
    Flushed(Duration),
    /// The call was reported before, and has ended after this time.
    Over(Duration),
}

/// A call to report, with the reason.
pub(super) struct Finding {
    pub(super) flow: Arc<str>,
    pub(super) record: Arc<Record>,
    pub(super) call: Call,
    pub(super) verdict: Verdict,
}

/// Displays the part of the component that is called, and the call, such as ``codec `json`: decode``.
pub(super) struct Named<'f>(pub(super) &'f Record, pub(super) Call);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.part {
            Some(part) => write!(f, "{part}: {}", self.1),
            None => write!(f, "{}", self.1),
        }
    }
}

impl Finding {
    pub(super) fn log(&self) {
        let Self { flow, record, call, verdict } = self;
        log::within(flow, || Self::log_verdict(record, *call, verdict));
    }

    fn log_verdict(record: &Record, call: Call, verdict: &Verdict) {
        let (component, call) = (&record.component, Named(record, call));
        match verdict {
            Verdict::Blocks(lasts) if record.is_of_runtime() => tracing::warn!(
                %component, %call, ?lasts,
                "one poll of a task of the runtime blocks its thread, so other tasks wait; this \
                 is a fault of the runtime, or the machine has no processor time left"
            ),
            Verdict::Calls(lasts, made) => tracing::warn!(
                %component, %call, ?lasts, %made,
                "one poll of a task of the runtime blocks its thread, so other tasks wait; calls into plugins such as \
                 `made` were made meanwhile, which are slow or many, or the machine has no processor time left"
            ),
            Verdict::Busy(lasts) => tracing::warn!(
                %component, %call, ?lasts,
                "the future of a call into the plugin wakes itself without end, which keeps a processor busy; it has \
                 to wake its task only when it can make progress"
            ),
            Verdict::Over(lasted) if record.is_of_runtime() => {
                tracing::info!(
                    %component, %call, ?lasted,
                    "the poll of the runtime's task that blocked its thread has returned"
                );
            }
            Verdict::Blocks(lasts) => tracing::warn!(
                %component, %call, ?lasts,
                "a call into the plugin blocks its thread; the executor starts another thread, \
                 up to a limit of four times TREMOR_THREADS (by default the number of \
                 processors); the plugin should run blocking work with `Host::blocking`"
            ),
            Verdict::Unanswered(lasts) => tracing::warn!(
                %component, %call, ?lasts,
                "the plugin has not answered a call, and the component waits for the answer; \
                 check the system that the plugin connects to"
            ),
            Verdict::Flushed(lasts) => tracing::warn!(
                %component, events = record.events(), ?lasts,
                "the sink returned from `flush` without answering an earlier delivery; a sink \
                 that declares that it gathers deliveries has to answer all of them in `flush`: \
                 this is a fault of the plugin"
            ),
            Verdict::Over(lasted) => {
                tracing::info!(
                    %component, %call, ?lasted,
                    "the reported call into the plugin has ended"
                );
            }
        }
    }
}

/// Logs that calls block more threads (`wanted`) than the executor can replace (`replaced`).
pub(super) fn log_crowded(wanted: usize, replaced: usize) {
    tracing::warn!(
        blocked = wanted,
        replaced,
        "calls of plugins block more threads than the executor can replace, so other flows may \
         stop; the limit is four times TREMOR_THREADS (by default the number of processors)"
    );
}

/// Returns the component and its current call, if a thread is in a call into the plugin.
pub(super) fn entered(record: &Record) -> Option<(&str, String)> {
    let state = record.state().filter(|state| state.inside && state.call != Call::Turn)?;
    Some((&record.component, Named(record, state.call).to_string()))
}

/// Returns the component and a description of its current call, if the call may delay others: it blocks its thread, or
/// has to be answered and was not.
pub(super) fn doing(record: &Record) -> Option<(Box<str>, String)> {
    // A turn is left out, because a call into a plugin within the turn has a record of its own.
    let state = record.state().filter(|state| state.call != Call::Turn)?;
    let (blocked, open) = {
        let seen = record.seen();
        (seen.blocked, seen.open)
    };
    let named = Named(record, state.call);
    let doing = if blocked > 0 && state.inside {
        format!("`{named}` has blocked its thread for {}", Seconds(blocked))
    } else if matches!(state.call, Call::Deliver | Call::Flushed) {
        format!("delivering {} events for {}", record.events(), Seconds(open))
    } else if state.call.is_to_be_answered() {
        format!("`{named}` has not been answered for {}", Seconds(open))
    } else {
        return None;
    };
    Some((record.component.clone(), doing))
}

/// A number of samples, displayed as a time in seconds.
struct Seconds(u32);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", lasted(self.0).as_secs_f64())
    }
}
