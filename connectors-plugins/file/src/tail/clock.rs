//! The host's clock, which may be set back.

use std::time::Duration;

/// Whether it is time. What is further away than it may be was set before the clock was set back.
pub(super) fn is_due(at_ns: u64, now_ns: u64, most_ns: u64) -> bool {
    now_ns >= at_ns || at_ns - now_ns > most_ns
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn a_clock_that_is_set_back_makes_no_wait_longer() {
        assert!(is_due(7, 7, 10) && is_due(7, 8, 10));
        assert!(!is_due(17, 7, 10));
        assert!(is_due(18, 7, 10), "it was set back");
    }
}
