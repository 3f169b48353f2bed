//! Findings of the watchdog, and their log lines.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    lasted,
    record::{Call, Record},
};
use crate::log;

/// The state of a call that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call has held a thread for this time.
    Holds(Duration),
    /// The call has not been answered for this time.
    Unanswered(Duration),
    /// The delivery has not been answered for this time after a flush was.
    Flushed(Duration),
    /// The call was reported, and is over after this time.
    Over(Duration),
}

/// Something to report.
pub(super) struct Finding {
    pub(super) flow: Arc<str>,
    pub(super) record: Arc<Record>,
    pub(super) call: Call,
    pub(super) verdict: Verdict,
}

/// A call, with the part of the component that it is made to.
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
            Verdict::Holds(lasts) if record.is_of_runtime() => tracing::warn!(
                %component, %call, ?lasts,
                "a task of the runtime keeps its thread in one turn, so that other tasks wait; this \
                 is a fault of the runtime or a sign of a machine without processor time"
            ),
            Verdict::Over(lasted) if record.is_of_runtime() => {
                tracing::info!(%component, %call, ?lasted, "the turn is over");
            }
            Verdict::Holds(lasts) => tracing::warn!(
                %component, %call, ?lasts,
                "a call blocks its thread, which another one stands in for while there may be more; \
                 the plugin should leave to `Host::blocking` what blocks"
            ),
            Verdict::Unanswered(lasts) => tracing::warn!(
                %component, %call, ?lasts,
                "a call has not been answered, and the component waits for that; look at what the \
                 plugin talks to"
            ),
            Verdict::Flushed(lasts) => tracing::warn!(
                %component, events = record.events(), ?lasts,
                "the sink returned from `flush`, and has not answered a delivery that began before; it declares \
                 that it gathers deliveries, so its `flush` has to answer all of them: a fault of the plugin"
            ),
            Verdict::Over(lasted) => {
                tracing::info!(%component, %call, ?lasted, "the call is over");
            }
        }
    }
}

/// Logs that the executor has fewer threads than it should have.
pub(super) fn log_crowded(wanted: usize, had: usize) {
    tracing::warn!(
        blocked = wanted,
        replaced = had,
        "more calls of plugins block threads than the executor has threads to stand in for them: \
         other flows may stand still. It has at most four times as many as there are processors, \
         or as TREMOR_THREADS says"
    );
}

/// The component, and what call it is in, where that is one that holds others up.
pub(super) fn doing(record: &Record) -> Option<(Box<str>, String)> {
    // The call into a plugin that the turn may be in has a record of its own.
    let state = record.state().filter(|state| state.call != Call::Turn)?;
    let (held, open) = {
        let seen = record.seen();
        (seen.held, seen.open)
    };
    let named = Named(record, state.call);
    let doing = if held > 0 && state.inside {
        format!("`{named}` has blocked its thread for {}", Seconds(held))
    } else if matches!(state.call, Call::Deliver | Call::Flushed) {
        format!("delivering {} events for {}", record.events(), Seconds(open))
    } else if state.call.is_to_be_answered() {
        format!("`{named}` has not been answered for {}", Seconds(open))
    } else {
        return None;
    };
    Some((record.component.clone(), doing))
}

/// A number of looks, shown in seconds.
struct Seconds(u32);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", lasted(self.0).as_secs_f64())
    }
}
