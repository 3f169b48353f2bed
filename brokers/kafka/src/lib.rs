//! The connectors `kafka_consumer` and `kafka_producer`: they read and write the topics of Apache Kafka, with
//! librdkafka as their client.

#[cfg(not(target_os = "linux"))]
compile_error!("the connectors for Kafka are tried on Linux only");

pub mod client;
pub mod consumer;
pub mod producer;

tremor_pdk::export! { connectors: [consumer::KafkaConsumer, producer::KafkaProducer] }
