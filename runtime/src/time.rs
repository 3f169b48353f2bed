//! The clock that stamps events.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time in ns since the Unix epoch. Zero for clocks that are set before it.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
