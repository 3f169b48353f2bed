//! The connector `kafka_producer`: writes events to topics of Kafka.
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
//! Each event is a record. A delivery is answered when the brokers have answered for each of its records, so
//! that nothing waits for a flush at the end.

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
    sink::Produces,
};

/// The connector.
pub struct KafkaProducer {
    settings: Arc<Settings>,
    context: ComponentContext,
    client: Option<Arc<Client>>,
    /// Memory for the records that wait in the last client.
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
    type Sink = Produces;

    /// Starts a client of librdkafka, and waits until a broker has answered it.
    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, Produces>> {
        self.close().await?;
        self.memory = None;
        let (least, most) = self.settings.buffer.clone().into_inner();
        let memory = Memory::borrow(&self.context, "max_buffer_bytes", most, least)?;
        let buffer = self.memory.insert(memory).bytes;
        let client = Client::start(&self.context, &self.settings, buffer).await?;
        let client = self.client.insert(client.into()).clone();
        Ok(Halves::sink(Produces::new(&self.context, client, self.settings.clone())))
    }

    /// Ends the client. Records that it has not delivered are not answered for.
    async fn close(&mut self) -> Result<()> {
        match self.client.take().and_then(Arc::into_inner) {
            Some(client) => client.end().await,
            // A sink has the client, and ends it.
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KafkaProducer({})", self.settings.topic)
    }
}
