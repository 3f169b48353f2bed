//! Replacement of a listener that clients can no longer reach.

use std::time::Duration;

use super::{super::alarm::Alarm, door::Listener};
use crate::Host;

/// A check at an interval that may return a new listener.
pub(super) struct Renewal {
    interval: Duration,
    alarm: Alarm,
    /// A new listener that has not replaced the present one yet.
    prepared: Option<Listener>,
    renew: Box<dyn FnMut() -> Option<Listener> + Send>,
}

impl Renewal {
    pub(super) fn new(
        host: &Host,
        interval: Duration,
        renew: impl FnMut() -> Option<Listener> + Send + 'static,
    ) -> Self {
        let mut alarm = Alarm::default();
        alarm.set(host, interval);
        Self { interval, alarm, prepared: None, renew: Box::new(renew) }
    }

    /// Returns whether a new listener is prepared, or the interval is over. The next interval starts then.
    pub(super) fn is_due(&mut self, host: &Host) -> bool {
        if self.prepared.is_some() {
            return true;
        }
        let is_due = self.alarm.rang_ns().is_some();
        if is_due {
            self.alarm.set(host, self.interval);
        }
        is_due
    }

    /// Returns whether there is a listener that should replace the present one, and makes it if necessary.
    pub(super) fn prepare(&mut self) -> bool {
        if self.prepared.is_none() {
            self.prepared = (self.renew)();
        }
        self.prepared.is_some()
    }

    /// Returns the listener that `prepare` has made.
    pub(super) fn take(&mut self) -> Option<Listener> {
        self.prepared.take()
    }

    /// Returns the alarm that rings when the interval is over.
    pub(super) fn alarm(&self) -> &Alarm {
        &self.alarm
    }
}
