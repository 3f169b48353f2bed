//! Replacement of a listener that clients can no longer reach.

use std::time::Duration;

use super::{super::alarm::Alarm, door::Listener};
use crate::Host;

/// A check at an interval that may return a new listener.
pub(super) struct Renewal {
    interval: Duration,
    alarm: Alarm,
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
        Self { interval, alarm, renew: Box::new(renew) }
    }

    /// Returns whether the interval is over. The next one starts then.
    pub(super) fn is_due(&mut self, host: &Host) -> bool {
        let is_due = self.alarm.rang_ns().is_some();
        if is_due {
            self.alarm.set(host, self.interval);
        }
        is_due
    }

    /// Returns the listener that replaces the present one, or `None` if that is still good.
    pub(super) fn listener(&mut self) -> Option<Listener> {
        (self.renew)()
    }

    /// Returns the alarm that rings when the interval is over.
    pub(super) fn alarm(&self) -> &Alarm {
        &self.alarm
    }
}
