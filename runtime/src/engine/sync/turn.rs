//! Time slices for tasks that never have to wait, so that they yield to other tasks.

use std::time::{Duration, Instant};

use crate::{engine::tuning::TIME_SLICE, executor};

/// The time slice of a task: the time since the task last waited or yielded, and the limit of this time.
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
    /// Creates a time slice of this length. It starts when it is first checked.
    pub(crate) fn of(slice: Duration) -> Self {
        Self { since: None, slice }
    }

    /// Yields to other tasks if the time slice is over at `now`.
    pub(crate) async fn share(&mut self, now: Instant) {
        if self.is_over(now) {
            self.end();
            executor::yield_now().await;
        }
    }

    /// Returns whether the time slice is over at `now`. Starts it if it has not started.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= self.slice
    }

    /// Starts a new time slice at `now`.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Ends the time slice, because the task waits. The next one starts when it is first checked.
    pub(crate) fn end(&mut self) {
        self.since = None;
    }
}
