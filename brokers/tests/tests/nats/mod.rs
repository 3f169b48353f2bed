//! NATS.

mod consumer;
mod consumer_faults;
mod producer;
mod producer_faults;
mod security;

use std::sync::{Mutex, OnceLock};

use broker_tests::{broker::Broker, nats::Nats};

/// The server of tests that do it no harm. None, and says so, where it cannot be started.
fn nats() -> Option<Nats> {
    // It ends with the process, which it is a child of.
    static BROKER: OnceLock<Option<Mutex<Broker>>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| Broker::start("nats", &[]).map(Mutex::new));
    broker.as_ref().map(|broker| Nats::new(broker.lock().unwrap().get("plain")))
}

/// The sink of flows that print what they read.
const STDOUT: &str = "{ type: stdio, codec: json, postprocessors: [lines] }";
