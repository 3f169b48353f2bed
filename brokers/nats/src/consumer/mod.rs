//! The connector `nats_consumer`, which reads a stream of JetStream as a durable consumer, or subjects of core
//! NATS.
//!
//! ```yaml
//! connectors:
//!   orders:
//!     type: nats_consumer
//!     codec: json
//!     config: { servers: ['nats-1:4222'], stream: ORDERS, consumer: billing }
//! ```
//!
//! With JetStream, a message is acknowledged once the flow has acknowledged its event, and is redelivered
//! otherwise.

mod acks;
mod backlog;
mod config;
mod durable;
mod info;
mod read;
mod record;
mod resume;
mod shared;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSink, prelude::*, tokio::Tokio};

use self::{config::Settings, resume::Resume};
pub use self::{
    config::{Acknowledge, Config, Start},
    source::Messages,
};
use crate::client::connect;

/// The connector `nats_consumer`.
pub struct NatsConsumer {
    settings: Arc<Settings>,
    context: ComponentContext,
    tokio: Option<Tokio>,
    resume: Arc<Resume>,
}

impl Component for NatsConsumer {
    const NAME: &str = "nats_consumer";
    const DESCRIPTION: &str =
        "Reads streams of NATS JetStream as a durable consumer, or subjects of core NATS.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let settings = Settings::new(config, &context)?.into();
        Ok(Self { settings, context, tokio: None, resume: Arc::default() })
    }
}

impl Connector for NatsConsumer {
    type Source = Messages;
    type Sink = NoSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Messages, NoSink>> {
        let tokio = match self.tokio.take() {
            Some(tokio) => tokio,
            None => Tokio::start(&self.context).await?,
        };
        let tokio = self.tokio.insert(tokio).clone();
        let client = connect(&tokio, &self.context, &self.settings.peer).await?;
        let resume = self.resume.clone();
        let messages = Messages::start(&self.context, tokio, client, &self.settings, resume);
        messages.await.map(Halves::source)
    }
}

impl std::fmt::Debug for NatsConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NatsConsumer")
    }
}
