//! Limits on the time for which a call may block its thread.

use std::{sync::Arc, time::Duration};

use super::{PERIOD, lasted};

/// Limit for calls that block a thread.
#[derive(Clone)]
pub(crate) struct Limit {
    /// The limit, in samples of the watchdog.
    pub(super) samples: u32,
    notify: Arc<dyn Fn(&Overrun) + Send + Sync>,
}

/// Call that exceeded its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    /// Name of the call, after the part of the component that is called.
    pub(crate) call: String,
    /// Time for which the call was observed to block its thread.
    pub(crate) lasted: Duration,
}

/// Notification that a call of a component exceeded its limit.
pub(super) struct Notification {
    limit: Limit,
    overrun: Overrun,
}

impl Limit {
    /// Creates a limit that calls `notify` for each call that blocks its thread for longer than `limit`.
    ///
    /// `notify` is called on the thread of the watchdog and must not block.
    pub(crate) fn new(limit: Duration, notify: impl Fn(&Overrun) + Send + Sync + 'static) -> Self {
        let samples = limit.as_nanos().div_ceil(PERIOD.as_nanos());
        Self {
            samples: u32::try_from(samples).unwrap_or(u32::MAX).max(1),
            notify: Arc::new(notify),
        }
    }

    /// Creates the notification for a call that was inside the same poll in `samples` consecutive samples after the
    /// first.
    pub(super) fn overrun(&self, call: String, samples: u32) -> Notification {
        Notification { limit: self.clone(), overrun: Overrun { call, lasted: lasted(samples) } }
    }
}

impl Notification {
    pub(super) fn notify(&self) {
        (self.limit.notify)(&self.overrun);
    }
}
