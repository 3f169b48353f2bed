//! The connectors `kafka_consumer` and `kafka_producer`, which read and write topics of Apache Kafka through
//! the client library librdkafka.

#[cfg(not(target_os = "linux"))]
compile_error!("the Kafka connectors support Linux only");

pub mod client;
pub mod consumer;
pub mod producer;

tremor_pdk::export! { connectors: [consumer::KafkaConsumer, producer::KafkaProducer] }
