//! The real program with the real plugins against real brokers.

// There is no error to handle in a test.
#![allow(clippy::unwrap_used)]

mod kafka;
mod nats;
