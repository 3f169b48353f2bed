//! The clock for the time stamps of events, and the clock with which plugins measure durations.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Returns the time in ns since the Unix epoch, or zero if the clock is set to an earlier time.
///
/// Use this only for time stamps, because the clock may be adjusted. The runtime measures durations with [`Instant`].
#[expect(clippy::disallowed_methods, reason = "this is the clock for stamps")]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanoseconds(since)
}

/// Returns the time of a monotonic clock in ns. The value is never zero, so that plugins can use zero for a time that
/// is not set.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(START.elapsed()).saturating_add(START_NS)
}

/// Returns the instant at which [`monotonic_ns`] is `time_ns`.
pub(crate) fn instant_of(time_ns: u64) -> Instant {
    *START + Duration::from_nanos(time_ns.saturating_sub(START_NS))
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Value of [`monotonic_ns`] at [`START`].
const START_NS: u64 = 1_000_000_000;

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
