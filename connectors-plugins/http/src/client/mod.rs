//! The `http_client` connector: sends events in HTTP requests, or polls for them.
//!
//! ```yaml
//! connectors:
//!   output:
//!     type: http_client
//!     codec: json
//!     in_flight: 8
//!     batch: { max_events: 1000, linger: 50ms }
//!     config:
//!       url: 'http://logs.example.com:8080/ingest'
//!       format: ndjson
//!       compression: zstd
//! ```
//!
//! Connections are kept and reused. A connection has no task of its own: the delivery that uses it
//! polls it.

mod body;
mod config;
mod otlp;
mod redirects;
mod settings;
mod source;
mod statuses;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::prelude::*;

use self::settings::Settings;
pub use self::{
    config::{Body, Config, Format},
    source::Polls,
};
use crate::exchange::Pool;
pub use crate::exchange::Posts;

/// Sends events in HTTP requests, or polls for them.
pub struct HttpClient {
    settings: Arc<Settings>,
    context: ComponentContext,
}

impl Component for HttpClient {
    const NAME: &str = "http_client";
    const DESCRIPTION: &str = "Sends events in HTTP requests, or polls for them at an interval.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { settings: Arc::new(Settings::new(config, &context)?), context })
    }
}

impl Connector for HttpClient {
    type Source = Polls;
    type Sink = Posts;

    fn sides(&self) -> Sides {
        Sides::new(self.settings.config.interval.is_some(), true)
    }

    /// Creates the pool of connections that both halves share. Does not connect yet: each request
    /// takes a connection from the pool, or makes a new one.
    async fn connect(&mut self, wanted: Sides) -> Result<Halves<Polls, Posts>> {
        let settings = &self.settings;
        let pool = Pool::new(&self.context, settings.common.endpoint.clone()).await?;
        let interval = settings.config.interval.filter(|_| wanted.has_source());
        let source = interval
            .map(|interval| Polls::new(&self.context, pool.clone(), settings.clone(), interval));
        let sink = wanted.has_sink().then(|| Posts::new(&self.context, pool, settings.clone()));
        Ok(Halves { source, sink })
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpClient({})", self.settings.common.endpoint.url)
    }
}
