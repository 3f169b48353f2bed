//! Measurements with processes of `examples/scale-out`, which share the partitions of a topic.

pub mod changes;
mod control;
pub mod counts;
pub mod limited;
mod processes;
mod tenth;

use std::time::{SystemTime, UNIX_EPOCH};

/// Broker settings for these measurements: members may have short session timeouts, and a new group does not wait for
/// more members.
pub const CONFIGURATION: &[&str] =
    &["--set", "group.min.session.timeout.ms=1000", "--set", "group.initial.rebalance.delay.ms=0"];

/// Returns the current time, in ms since 1970.
#[expect(clippy::disallowed_methods, reason = "compared with timestamps of the broker")]
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
