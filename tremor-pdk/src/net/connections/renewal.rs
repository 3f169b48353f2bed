//! Replacement of a listener that clients can no longer reach.

use std::time::Duration;

use super::{super::timer::Timer, acceptor::Listener};
use crate::Host;

/// A periodic check that may return a new listener.
pub(super) struct Renewal {
    interval: Duration,
    timer: Timer,
    /// A new listener that has not replaced the current listener yet.
    prepared: Option<Listener>,
    renew: Box<dyn FnMut() -> Option<Listener> + Send>,
}

impl Renewal {
    pub(super) fn new(
        host: &Host,
        interval: Duration,
        renew: impl FnMut() -> Option<Listener> + Send + 'static,
    ) -> Self {
        let mut timer = Timer::default();
        timer.set(host, interval);
        Self { interval, timer, prepared: None, renew: Box::new(renew) }
    }

    /// Returns whether a new listener is prepared, or the interval has ended. If the interval has ended, starts the
    /// next interval.
    pub(super) fn is_due(&mut self, host: &Host) -> bool {
        if self.prepared.is_some() {
            return true;
        }
        let is_due = self.timer.expired_ns().is_some();
        if is_due {
            self.timer.set(host, self.interval);
        }
        is_due
    }

    /// Calls `renew` unless a new listener is already prepared. Returns whether a new listener is prepared.
    pub(super) fn prepare(&mut self) -> bool {
        if self.prepared.is_none() {
            self.prepared = (self.renew)();
        }
        self.prepared.is_some()
    }

    /// Removes and returns the prepared listener, if any.
    pub(super) fn take(&mut self) -> Option<Listener> {
        self.prepared.take()
    }

    /// Returns the timer of the interval.
    pub(super) fn timer(&self) -> &Timer {
        &self.timer
    }
}
