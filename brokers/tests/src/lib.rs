//! Support for tests that run the real program with the real plugins against real brokers: the program,
//! brokers, an HTTP peer that answers on demand, and clients that show the contents of the brokers.

#![allow(clippy::print_stderr)]
// people who run the tests read these messages
// The whole crate is test code, which handles no errors.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod broker;
pub mod built;
pub mod flow;
pub mod jwt;
pub mod kafka;
pub mod lines;
pub mod nats;
pub mod records;
pub mod scale_out;
pub mod small_disk;

use std::{
    fmt::Display,
    thread,
    time::{Duration, Instant},
};

pub use hostile_peers::{answering as peer, proxy};

/// Maximum time that a test waits for a condition.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Time limit of one request of such a wait. It is shorter than [`PATIENCE`], so that a request is repeated that a broker
/// left unanswered while it started.
pub const REQUEST: Duration = Duration::from_secs(15);

/// Polls `look` until it returns a value, and returns the value. Panics after [`PATIENCE`] with a message that contains
/// `what`, a description of the value, which is formatted only then.
pub fn eventually<T>(what: impl Display, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not reached within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
