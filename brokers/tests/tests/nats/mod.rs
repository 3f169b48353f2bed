//! Tests with NATS.

mod consumer;
mod consumer_faults;
mod producer;
mod producer_faults;
mod security;

use std::sync::{Mutex, OnceLock};

use broker_tests::{broker::Broker, nats::Nats};

/// Returns the server that is shared by all tests that do not stop or harm it. If the server cannot be started, prints
/// the reason and returns `None`.
pub(crate) fn nats() -> Option<Nats> {
    // The value is never dropped. The child processes of the server end with this process.
    static BROKER: OnceLock<Option<Mutex<Broker>>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| Broker::start("nats", &[]).map(Mutex::new));
    broker.as_ref().map(|broker| Nats::new(broker.lock().unwrap().get("plain")))
}

/// Sink of flows that print what they read.
const STDOUT: &str = "{ type: stdio, codec: json, postprocessors: [lines] }";
