//! Tests of the real program with the real plugins against real brokers.

// Tests handle no errors.
#![allow(clippy::unwrap_used)]

mod faults;
mod kafka;
mod nats;
