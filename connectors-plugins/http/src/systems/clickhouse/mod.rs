//! The `clickhouse` connector: inserts events as rows into a table of `ClickHouse`.
//!
//! ```yaml
//! connectors:
//!   rows:
//!     type: clickhouse
//!     batch: { max_events: 10000, linger: 1s }
//!     config:
//!       url: https://clickhouse.example.com:8443
//!       database: logs
//!       table: requests
//!       user: tremor
//!       password: '${env:PASSWORD}'
//! ```

mod answer;
mod config;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

pub use self::config::Config;
use self::settings::Settings;
use crate::exchange::{JsonPosts, Pool};

/// Inserts events as rows into a table.
pub struct ClickHouse {
    settings: Arc<Settings>,
    context: ComponentContext,
}

impl Component for ClickHouse {
    const NAME: &str = "clickhouse";
    const DESCRIPTION: &str = "Inserts events as rows into a table of ClickHouse.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { settings: Arc::new(Settings::new(&config, &context)?), context })
    }
}

impl Connector for ClickHouse {
    type Source = NoSource;
    type Sink = JsonPosts;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, JsonPosts>> {
        let settings = self.settings.clone();
        let pool = Pool::new(&self.context, settings.endpoint.clone()).await?;
        Ok(Halves::sink(JsonPosts::new(&self.context, pool, settings)))
    }
}

impl std::fmt::Debug for ClickHouse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClickHouse({})", self.settings.endpoint.url)
    }
}
