//! Kafka.

mod consumer;
mod consumer_faults;
mod consumer_security;
mod instances;
mod producer;
mod producer_faults;
mod rebalance;
mod security;

use std::sync::{Mutex, OnceLock};

use broker_tests::{broker::Broker, kafka::Kafka, scale_out::CONFIGURATION};

/// The broker of tests that do it no harm. None, and says so, where it cannot be started.
fn kafka() -> Option<Kafka> {
    // It ends with the process, which it is a child of.
    static BROKER: OnceLock<Option<Mutex<Broker>>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| Broker::start("kafka", CONFIGURATION).map(Mutex::new));
    broker.as_ref().map(|broker| Kafka::new(broker.lock().unwrap().get("plain")))
}
