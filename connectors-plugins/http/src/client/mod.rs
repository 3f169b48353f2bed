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

pub(crate) mod answer;
mod body;
mod config;
pub(crate) mod connection;
mod otlp;
pub(crate) mod pool;
pub(crate) mod secrets;
pub(crate) mod settings;
mod sink;
mod source;
mod target;
#[cfg(test)]
mod tests;
pub(crate) mod text;
pub(crate) mod url;

use std::sync::Arc;

use tremor_pdk::{Descriptors, net::Proxy, prelude::*};

pub use self::{
    config::{Auth, Body, Compression, Config, Escape, Format, Secret},
    sink::Posts,
    source::Polls,
};
use self::{pool::Pool, settings::Settings};

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
        if let Some(tls) = &self.settings.tls {
            // Detects errors in the files before the first request.
            tls.client_config().await?;
        }
        let url = &self.settings.url;
        let proxy = Proxy::from_environment(&self.context, &url.address()?, url.is_tls)?;
        if let Some(proxy) = &proxy {
            tremor_pdk::info!(self.context, "sends through {proxy}");
        }
        let descriptors = Descriptors::new(&self.context)?;
        let pool = Pool::new(&self.context, self.settings.clone(), descriptors, proxy);
        let pool = Arc::new(pool);
        let interval = self.settings.config.interval.filter(|_| wanted.has_source());
        Ok(Halves {
            source: interval.map(|interval| Polls::new(&self.context, pool.clone(), interval)),
            sink: wanted.has_sink().then(|| Posts::new(&self.context, pool)),
        })
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpClient({})", self.settings.url)
    }
}
