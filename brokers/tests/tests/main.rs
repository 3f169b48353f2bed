//! Tests of the real program with the real plugins against real brokers.

// A panic names the line of the failure.
#![allow(clippy::unwrap_used)]

mod faults;
mod kafka;
mod nats;
