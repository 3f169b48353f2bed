//! The `loki` connector: sends events as lines of log streams to Grafana Loki.
//!
//! ```yaml
//! connectors:
//!   logs:
//!     type: loki
//!     codec: json
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: https://loki.example.com
//!       labels: { job: app, host: '{host}' }
//! ```

mod config;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

pub use self::config::Config;
use self::settings::Settings;
use crate::exchange::{JsonPosts, Pool};

/// Sends events as lines of log streams.
pub struct Loki {
    settings: Arc<Settings>,
    context: ComponentContext,
}

impl Component for Loki {
    const NAME: &str = "loki";
    const DESCRIPTION: &str =
        "Sends events as lines of log streams to Grafana Loki, or to a system with its push API.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { settings: Arc::new(Settings::new(&config, &context)?), context })
    }
}

impl Connector for Loki {
    type Source = NoSource;
    type Sink = JsonPosts;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, JsonPosts>> {
        let settings = self.settings.clone();
        let pool = Pool::new(&self.context, settings.endpoint.clone()).await?;
        Ok(Halves::sink(JsonPosts::new(&self.context, pool, settings)))
    }
}

impl std::fmt::Debug for Loki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loki({})", self.settings.endpoint.url)
    }
}
