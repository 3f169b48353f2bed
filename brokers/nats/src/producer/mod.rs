//! The connector `nats_producer`, which publishes events to subjects of NATS.
//!
//! ```yaml
//! connectors:
//!   output:
//!     type: nats_producer
//!     codec: json
//!     in_flight: 8
//!     config: { servers: ['nats-1:4222'], subject: orders.new }
//! ```
//!
//! Each event becomes a message. With JetStream, a delivery completes when a stream has answered for each message.
//! Without JetStream, it completes when the server has processed the messages.

mod config;
mod confirming;
mod message;
mod outcome;
mod sink;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*, tokio::Tokio};

use self::config::Settings;
pub use self::{config::Config, sink::ProducerSink};
use crate::client::connect;

/// The connector `nats_producer`.
pub struct NatsProducer {
    settings: Arc<Settings>,
    context: ComponentContext,
    tokio: Option<Tokio>,
}

impl Component for NatsProducer {
    const NAME: &str = "nats_producer";
    const DESCRIPTION: &str = "Publishes events to subjects of NATS, with or without JetStream.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let settings = Settings::new(config, &context)?.into();
        Ok(Self { settings, context, tokio: None })
    }
}

impl Connector for NatsProducer {
    type Source = NoSource;
    type Sink = ProducerSink;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, ProducerSink>> {
        let tokio = match self.tokio.take() {
            Some(tokio) => tokio,
            None => Tokio::start(&self.context).await?,
        };
        let tokio = self.tokio.insert(tokio).clone();
        let client = connect(&tokio, &self.context, &self.settings.peer).await?;
        Ok(Halves::sink(ProducerSink::new(&self.context, tokio, client, self.settings.clone())))
    }
}

impl std::fmt::Debug for NatsProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NatsProducer({})", self.settings.subject)
    }
}
