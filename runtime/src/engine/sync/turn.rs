//! How long a task may keep its thread while its work never makes it wait.

use std::time::{Duration, Instant};

use crate::{engine::tuning::TIME_SLICE, executor};

/// The time since a task last waited or gave its thread to other tasks.
#[derive(Debug)]
pub(crate) struct Turn {
    since: Option<Instant>,
    slice: Duration,
}

impl Default for Turn {
    fn default() -> Self {
        Self::of(TIME_SLICE)
    }
}

impl Turn {
    /// Makes turns of `slice` each; the first starts when it is checked.
    pub(crate) fn of(slice: Duration) -> Self {
        Self { since: None, slice }
    }

    /// Gives the thread to other tasks if the turn is over at `now`.
    pub(crate) async fn share(&mut self, now: Instant) {
        if self.is_over(now) {
            self.end();
            executor::yield_now().await;
        }
    }

    /// Returns whether the task has kept its thread for a whole turn at `now`.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= self.slice
    }

    /// Starts another turn at `now`.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Ends the turn, because the task waits. Another one starts when it is checked.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }
}
