//! How long a task may keep its thread while its work never makes it wait.

use std::time::Instant;

use crate::{engine::tuning::TIME_SLICE, executor};

/// The time since a task last waited or gave its thread to other tasks.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    since: Option<Instant>,
}

impl Turn {
    /// Gives the thread to other tasks if this one has kept it for [`TIME_SLICE`] at `now`.
    pub(crate) async fn share(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= TIME_SLICE {
            self.since = None;
            executor::yield_now().await;
        }
    }

    /// Starts another turn, because the task waits.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }
}
