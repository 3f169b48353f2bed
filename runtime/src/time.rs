//! The clock that stamps events, and the one that measures durations for plugins.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Returns the time in ns since the Unix epoch. Zero for clocks that are set before it.
///
/// Use it for stamps alone. The clock may be set: the runtime measures durations with [`Instant`].
#[expect(clippy::disallowed_methods, reason = "this is the clock for stamps")]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanoseconds(since)
}

/// Returns the time in ns by a clock that nobody sets. Never zero, which plugins may use for "not yet".
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
