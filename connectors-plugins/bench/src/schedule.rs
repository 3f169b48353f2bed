//! When events are to be sent, where a rate says so: open loop, without regard to what becomes of them.

use tremor_pdk::prelude::*;

/// Events a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate(f64);

impl Rate {
    /// # Errors
    /// Kind configuration: not a number of events that one could send.
    pub(crate) fn new(events_per_second: f64) -> Result<Self> {
        if events_per_second.is_finite() && events_per_second > 0.0 {
            return Ok(Self(events_per_second));
        }
        Err(Error::configuration(format!(
            "`rate` is {events_per_second}: write events a second, more than 0"
        )))
    }
}

/// The times at which events are due. Each is counted from the start, so that a late event makes
/// none after it late, and no error adds up.
#[derive(Debug)]
pub(crate) struct Schedule {
    start_ns: u64,
    interval_ns: f64,
    /// How many events have been taken.
    taken: u64,
}

impl Schedule {
    /// The first event is due at once.
    pub(crate) fn new(start_ns: u64, Rate(events_per_second): Rate) -> Self {
        Self { start_ns, interval_ns: 1e9 / events_per_second, taken: 0 }
    }

    /// When the next event is due, in ns since the Unix epoch.
    pub(crate) fn due_ns(&self) -> u64 {
        // Exact below 2^53, in events and in ns from the start: 104 days. A float that is too large
        // becomes the largest integer.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let after_ns = (self.taken as f64 * self.interval_ns) as u64;
        self.start_ns.saturating_add(after_ns)
    }

    /// The next event is under way.
    pub(crate) fn take(&mut self) {
        self.taken += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Rate, Schedule};

    #[test]
    fn no_error_adds_up() {
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
    fn an_event_in_a_distant_future_is_never_due() {
        let mut schedule = Schedule::new(5, Rate::new(f64::MIN_POSITIVE).unwrap());
        schedule.take();
        assert_eq!(schedule.due_ns(), u64::MAX);
    }
}
