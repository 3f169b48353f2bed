//! Schedule of an open-loop load: the times at which events are due do not depend on the progress
//! of earlier events.

use tremor_pdk::prelude::*;

/// Events per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(f64);

impl Rate {
    /// Creates the rate.
    ///
    /// # Errors
    /// An error of the kind configuration unless the rate is finite and positive.
    pub(crate) fn new(events_per_second: f64) -> Result<Self> {
        if events_per_second.is_finite() && events_per_second > 0.0 {
            return Ok(Self(events_per_second));
        }
        Err(Error::configuration(format!(
            "invalid `rate` {events_per_second}: expected events per second, more than 0"
        )))
    }
}

/// The times at which events are due. Each time is computed from the start, so that a late event
/// does not delay later events, and rounding errors do not accumulate.
#[derive(Debug)]
pub(crate) struct Schedule {
    start_ns: u64,
    interval_ns: f64,
    /// Number of events that were emitted before the next one.
    taken: u64,
}

impl Schedule {
    /// Creates a schedule whose first event is due immediately.
    pub(crate) fn new(start_ns: u64, Rate(events_per_second): Rate) -> Self {
        Self { start_ns, interval_ns: 1e9 / events_per_second, taken: 0 }
    }

    /// Returns the time at which the next event is due, in ns since the Unix epoch.
    pub(crate) fn due_ns(&self) -> u64 {
        // Exact below 2^53 events, and below 2^53 ns (104 days) from the start. The conversion
        // saturates if the float is too large.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let after_ns = (self.taken as f64 * self.interval_ns) as u64;
        self.start_ns.saturating_add(after_ns)
    }

    /// Advances to the next event.
    pub(crate) fn take(&mut self) {
        self.taken += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Schedule};

    #[test]
    fn rounding_errors_do_not_accumulate() {
        for (rate, second) in [(1.0, 1), (3.0, 3), (48_000.0, 48_000), (7_000_000.0, 7_000_000)] {
            let mut schedule = Schedule::new(5, Rate::new(rate).unwrap());
            let due = |schedule: &mut Schedule, taken| {
                schedule.taken = taken;
                schedule.due_ns()
            };
            assert_eq!(due(&mut schedule, 0), 5);
            let hour = 3_600 * 1_000_000_000_u64;
            assert!(due(&mut schedule, second * 3_600).abs_diff(5 + hour) <= 1, "{rate}");
        }
    }

    #[test]
    fn event_in_distant_future_is_never_due() {
        let mut schedule = Schedule::new(5, Rate::new(f64::MIN_POSITIVE).unwrap());
        schedule.take();
        assert_eq!(schedule.due_ns(), u64::MAX);
    }
}
