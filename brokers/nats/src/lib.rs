//! The connectors `nats_consumer` and `nats_producer`: they read and write NATS, JetStream included, with
//! async-nats as their client.

pub mod client;
pub mod consumer;
pub mod producer;
#[cfg(test)]
mod testing;

tremor_pdk::export! { connectors: [consumer::NatsConsumer, producer::NatsProducer] }
