//! The connectors `nats_consumer` and `nats_producer`, which read messages from NATS and publish messages, with or
//! without JetStream. They use the client library async-nats.

pub mod client;
pub mod consumer;
pub mod producer;
#[cfg(test)]
mod testing;

tremor_pdk::export! { connectors: [consumer::NatsConsumer, producer::NatsProducer] }
