//! Conversion of durations to the unit of the host's monotonic clock.

use std::time::Duration;

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
