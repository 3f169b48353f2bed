//! Kafka.

mod consumer;
mod consumer_faults;
mod consumer_security;
mod producer;
mod producer_faults;
mod rebalance;
mod security;

use std::sync::{Mutex, OnceLock};

use broker_tests::{broker::Broker, kafka::Kafka};

/// The broker of tests that do it no harm. None, and says so, where it cannot be started.
fn kafka() -> Option<Kafka> {
    // It ends with the process, which it is a child of.
    static BROKER: OnceLock<Option<Mutex<Broker>>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| Broker::start("kafka", CONFIGURATION).map(Mutex::new));
    broker.as_ref().map(|broker| Kafka::new(broker.lock().unwrap().get("plain")))
}

/// Members may have short sessions, and a group starts at once.
const CONFIGURATION: &[&str] =
    &["--set", "group.min.session.timeout.ms=1000", "--set", "group.initial.rebalance.delay.ms=0"];
