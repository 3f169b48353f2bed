//! The connector `kafka_consumer`, which reads topics as a member of a consumer group.
//!
//! ```yaml
//! connectors:
//!   orders:
//!     type: kafka_consumer
//!     codec: json
//!     config: { brokers: ['kafka-1:9092'], topics: [orders], group: billing }
//! ```
//!
//! Each record is a message, and each partition a stream. Acknowledged records are committed.

mod client;
mod config;
mod connect;
mod context;
mod lag;
mod member;
mod partitions;
mod record;
mod shared;
mod signal;
mod source;
mod start;
#[cfg(test)]
mod tests;

use std::{future::poll_fn, sync::Arc};

use tremor_pdk::{NoSink, prelude::*};

use self::{config::Settings, member::Member, shared::Shared, signal::Signal};
pub use self::{
    config::{Config, Start},
    source::Records,
};
use crate::client::Records as Memory;

/// The connector `kafka_consumer`.
pub struct KafkaConsumer {
    settings: Arc<Settings>,
    context: ComponentContext,
    /// Memory of the flow that is reserved for the records that the client fetches ahead.
    memory: Option<Memory>,
    /// Set once the previous client has left the group; `None` if there was no client.
    ended: Option<Arc<Signal>>,
}

impl Component for KafkaConsumer {
    const NAME: &str = "kafka_consumer";
    const DESCRIPTION: &str = "Reads topics of Apache Kafka as a member of a consumer group.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let settings = Arc::new(Settings::new(&config, &context)?);
        Ok(Self { settings, context, memory: None, ended: None })
    }
}

impl KafkaConsumer {
    /// Waits until the previous client has left the group, and releases its memory.
    async fn wait_until_ended(&mut self) {
        if let Some(ended) = &self.ended {
            poll_fn(|context| ended.poll(context)).await;
        }
        self.ended = None;
        self.memory = None;
    }
}

impl Connector for KafkaConsumer {
    type Source = Records;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Records, NoSink>> {
        self.wait_until_ended().await;
        let most = self.settings.prefetch;
        let memory = Memory::borrow(&self.context, "prefetch", most, most.min(1 << 20))?;
        let prefetch = self.memory.insert(memory).bytes;
        let ended = self.ended.insert(Arc::default());
        let client = match connect::connect(&self.context, &self.settings, prefetch, ended).await {
            Ok(client) => client,
            Err(error) => {
                self.wait_until_ended().await;
                return Err(error);
            }
        };
        tremor_pdk::info!(self.context, "joining the consumer group");
        let shared = Shared::new(Host::clone(&self.context), self.settings.clone(), client);
        let shared = Arc::new(shared);
        let member = self.context.spawn("Kafka group member", Member::new(shared.clone()).run());
        Ok(Halves::source(Records::new(shared, member)))
    }

    async fn close(&mut self) -> Result<()> {
        self.wait_until_ended().await;
        Ok(())
    }
}

impl std::fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConsumer")
            .field("topics", &self.settings.topics)
            .finish_non_exhaustive()
    }
}
