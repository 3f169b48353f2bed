//! The connector `nats_consumer`: reads a stream of JetStream as a durable consumer, or subjects of core NATS.
//!
//! ```yaml
//! connectors:
//!   orders:
//!     type: nats_consumer
//!     codec: json
//!     config: { servers: ['nats-1:4222'], stream: ORDERS, consumer: billing }
//! ```
//!
//! With JetStream a message is acknowledged when the flow has acknowledged its event, and comes again otherwise.

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

use tremor_pdk::{prelude::*, tokio::Tokio};

use self::{config::Settings, resume::Resume};
pub use self::{
    config::{Acknowledge, Config, Start},
    source::Messages,
};
use crate::client::{Client, connect};

/// The connector.
pub struct NatsConsumer {
    settings: Arc<Settings>,
    context: Context,
    tokio: Option<Tokio>,
    client: Option<Client>,
    resume: Arc<Resume>,
}

impl Component for NatsConsumer {
    const NAME: &str = "nats_consumer";
    const DESCRIPTION: &str =
        "Reads streams of NATS JetStream as a durable consumer, or subjects of core NATS.";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        let settings = Settings::new(config, &context)?.into();
        Ok(Self { settings, context, tokio: None, client: None, resume: Arc::default() })
    }
}

impl Connector for NatsConsumer {
    type Source = Messages;
    type Sink = NoSink;

    async fn connect(&mut self, _attempt: u64) -> Result<bool> {
        self.client = None;
        let tokio = match self.tokio.take() {
            Some(tokio) => tokio,
            None => Tokio::start(&self.context).await?,
        };
        let tokio = self.tokio.insert(tokio);
        self.client = Some(connect(tokio, &self.context, &self.settings.peer).await?);
        Ok(true)
    }

    async fn create_source(&mut self) -> Result<Option<Messages>> {
        let (Some(client), Some(tokio)) = (self.client.take(), &self.tokio) else {
            return Ok(None);
        };
        let (tokio, resume) = (tokio.clone(), self.resume.clone());
        Messages::start(&self.context, tokio, client, &self.settings, resume).await.map(Some)
    }

    async fn on_connection_lost(&mut self) -> Result<()> {
        self.client = None;
        Ok(())
    }

    async fn on_stop(&mut self) -> Result<()> {
        self.client = None;
        self.tokio = None;
        Ok(())
    }
}

impl std::fmt::Debug for NatsConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NatsConsumer")
    }
}
