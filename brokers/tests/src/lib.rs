//! What tests need that run the real program with the real plugins against real brokers: the program, brokers,
//! a peer that answers when it is told to, and the brokers'
//! own view of what they have.

#![allow(clippy::print_stderr)] // people read it
// All of it is for tests, in which there is no error to handle.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod broker;
pub mod built;
pub mod flow;
pub mod jwt;
pub mod kafka;
pub mod nats;
pub mod peer;
pub mod proxy;
pub mod records;
pub mod scale_out;
pub mod small_disk;

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take that a test waits for.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until something is there in another process, and gives it. `what` is it that is waited for.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
