//! The connector `kafka_consumer`: reads topics as a member of a consumer group.
//!
//! ```yaml
//! connectors:
//!   orders:
//!     type: kafka_consumer
//!     codec: json
//!     config: { brokers: ['kafka-1:9092'], topics: [orders], group: billing }
//! ```
//!
//! A record is a message, and its partition is a stream. What is committed is what is acknowledged.

mod client;
mod config;
mod connect;
mod context;
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

/// The connector.
pub struct KafkaConsumer {
    settings: Arc<Settings>,
    context: ComponentContext,
    /// Memory for the records that the last client fetches ahead.
    memory: Option<Memory>,
    /// Set once the last client has left the group. None: there is none.
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
    /// Waits until an earlier client has left the group.
    async fn ended(&mut self) {
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
        self.ended().await;
        let most = self.settings.prefetch;
        let memory = Memory::borrow(&self.context, "prefetch", most, most.min(1 << 20))?;
        let prefetch = self.memory.insert(memory).bytes;
        let ended = self.ended.insert(Arc::default());
        let client = match connect::connect(&self.context, &self.settings, prefetch, ended).await {
            Ok(client) => client,
            Err(error) => {
                self.ended().await;
                return Err(error);
            }
        };
        tremor_pdk::info!(self.context, "joins the group");
        let shared = Shared::new(Host::clone(&self.context), self.settings.clone(), client);
        let shared = Arc::new(shared);
        let member =
            self.context.spawn("is a member of the group", Member::new(shared.clone()).run());
        Ok(Halves::source(Records::new(shared, member)))
    }

    async fn close(&mut self) -> Result<()> {
        self.ended().await;
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
