//! The `victorialogs` connector: sends events as log entries to `VictoriaLogs`.
//!
//! ```yaml
//! connectors:
//!   logs:
//!     type: victorialogs
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: http://logs.example.com:9428
//!       stream_fields: [host, service]
//!       time_field: timestamp
//!       message_field: message
//! ```

mod config;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

pub use self::config::{Config, Tenant};
use self::settings::Settings;
use crate::exchange::{JsonPosts, Pool};

/// Sends events as log entries.
pub struct VictoriaLogs {
    settings: Arc<Settings>,
    context: ComponentContext,
}

impl Component for VictoriaLogs {
    const NAME: &str = "victorialogs";
    const DESCRIPTION: &str = "Sends events as log entries to VictoriaLogs.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { settings: Arc::new(Settings::new(&config, &context)?), context })
    }
}

impl Connector for VictoriaLogs {
    type Source = NoSource;
    type Sink = JsonPosts;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, JsonPosts>> {
        let settings = self.settings.clone();
        let pool = Pool::new(&self.context, settings.endpoint.clone()).await?;
        Ok(Halves::sink(JsonPosts::new(&self.context, pool, settings)))
    }
}

impl std::fmt::Debug for VictoriaLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VictoriaLogs({})", self.settings.endpoint.url)
    }
}
