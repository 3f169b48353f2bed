//! The `splunk_hec` connector: sends events to the HTTP Event Collector of Splunk.
//!
//! ```yaml
//! connectors:
//!   events:
//!     type: splunk_hec
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: https://splunk.example.com:8088
//!       token: '${env:SPLUNK_TOKEN}'
//!       host: '{host}'
//!       sourcetype: _json
//! ```

mod answer;
mod config;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

pub use self::config::{Config, Form};
use self::settings::Settings;
use crate::exchange::{JsonPosts, Pool};

/// Sends events to the HTTP Event Collector.
pub struct SplunkHec {
    settings: Arc<Settings>,
    context: ComponentContext,
}

impl Component for SplunkHec {
    const NAME: &str = "splunk_hec";
    const DESCRIPTION: &str = "Sends events to the HTTP Event Collector of Splunk.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { settings: Arc::new(Settings::new(&config, &context)?), context })
    }
}

impl Connector for SplunkHec {
    type Source = NoSource;
    type Sink = JsonPosts;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, JsonPosts>> {
        let settings = self.settings.clone();
        let pool = Pool::new(&self.context, settings.endpoint.clone()).await?;
        Ok(Halves::sink(JsonPosts::new(&self.context, pool, settings)))
    }
}

impl std::fmt::Debug for SplunkHec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SplunkHec({})", self.settings.endpoint.url)
    }
}
