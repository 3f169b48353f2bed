//! The connector `kafka_producer`, which writes events to topics of Kafka.
//!
//! ```yaml
//! connectors:
//!   output:
//!     type: kafka_producer
//!     codec: json
//!     in_flight: 8
//!     config:
//!       brokers: [kafka-1:9092, kafka-2:9092]
//!       topic: orders
//! ```
//!
//! Each event becomes a record. A delivery completes when the brokers have answered for each of its records, so
//! no flush is needed at the end.

mod client;
mod config;
mod ledger;
mod native;
mod outcome;
mod record;
mod sink;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

use self::{client::Client, config::Settings};
use crate::client::Records as Memory;

pub use self::{
    config::{Acks, Compression, Config, Partitioner},
    sink::ProducerSink,
};

/// The connector `kafka_producer`.
pub struct KafkaProducer {
    settings: Arc<Settings>,
    context: ComponentContext,
    client: Option<Arc<Client>>,
    /// Memory of the flow that is reserved for the records that wait in the client.
    memory: Option<Memory>,
}

impl Component for KafkaProducer {
    const NAME: &str = "kafka_producer";
    const DESCRIPTION: &str = "Writes events to topics of Apache Kafka.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let settings = Settings::new(config, &context)?.into();
        Ok(Self { settings, context, client: None, memory: None })
    }
}

impl Connector for KafkaProducer {
    type Source = NoSource;
    type Sink = ProducerSink;

    /// Starts a client of librdkafka, and waits until a broker has answered.
    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, ProducerSink>> {
        self.close().await?;
        self.memory = None;
        let (least, most) = self.settings.buffer.clone().into_inner();
        let memory = Memory::borrow(&self.context, "max_buffer_bytes", most, least)?;
        let buffer = self.memory.insert(memory).bytes;
        let client = Client::start(&self.context, &self.settings, buffer).await?;
        let client = self.client.insert(client.into()).clone();
        Ok(Halves::sink(ProducerSink::new(&self.context, client, self.settings.clone())))
    }

    /// Closes the client, unless a sink still owns it.
    async fn close(&mut self) -> Result<()> {
        match self.client.take().and_then(Arc::into_inner) {
            Some(client) => client.end().await,
            // A sink still owns the client, and closes it.
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KafkaProducer({})", self.settings.topic)
    }
}
