//! Processes of `examples/scale-out`, which share the partitions of a topic.

pub mod books;
pub mod changes;
mod control;
pub mod limited;
mod processes;
mod tenth;

use std::time::{SystemTime, UNIX_EPOCH};

/// What a broker needs for that: members may have short sessions, and a group starts at once.
pub const CONFIGURATION: &[&str] =
    &["--set", "group.min.session.timeout.ms=1000", "--set", "group.initial.rebalance.delay.ms=0"];

/// In ms since 1970.
#[expect(clippy::disallowed_methods, reason = "it is a stamp")]
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
