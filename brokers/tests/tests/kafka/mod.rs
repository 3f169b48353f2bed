//! Tests with Kafka.

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

/// Returns the broker that is shared by all tests that do not harm it. If it cannot be started, prints the reason and
/// returns `None`.
pub(crate) fn kafka() -> Option<Kafka> {
    // The value is never dropped. The child processes of the broker end with this process.
    static BROKER: OnceLock<Option<Mutex<Broker>>> = OnceLock::new();
    let broker = BROKER.get_or_init(|| Broker::start("kafka", CONFIGURATION).map(Mutex::new));
    broker.as_ref().map(|broker| Kafka::new(broker.lock().unwrap().get("plain")))
}
