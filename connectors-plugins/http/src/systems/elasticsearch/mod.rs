//! The `elasticsearch` connector: writes events as documents with the bulk API of Elasticsearch and OpenSearch.
//!
//! ```yaml
//! connectors:
//!   documents:
//!     type: elasticsearch
//!     batch: { max_events: 1000, linger: 200ms }
//!     config:
//!       url: https://search.example.com:9200
//!       index: 'logs-{service}-{:+%Y.%m.%d}'
//!       id: position
//! ```

mod answer;
mod config;
mod position;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

pub use self::config::{Action, Config};
use self::settings::Settings;
use crate::exchange::{JsonPosts, Pool};

/// Writes events as documents.
pub struct Elasticsearch {
    settings: Arc<Settings>,
    context: ComponentContext,
}

impl Component for Elasticsearch {
    const NAME: &str = "elasticsearch";
    const DESCRIPTION: &str =
        "Writes events as documents to Elasticsearch, OpenSearch, or systems with the same API.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        Ok(Self { settings: Arc::new(Settings::new(&config, &context)?), context })
    }
}

impl Connector for Elasticsearch {
    type Source = NoSource;
    type Sink = JsonPosts;

    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, JsonPosts>> {
        let settings = self.settings.clone();
        let pool = Pool::new(&self.context, settings.endpoint.clone()).await?;
        Ok(Halves::sink(JsonPosts::new(&self.context, pool, settings)))
    }
}

impl std::fmt::Debug for Elasticsearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Elasticsearch({})", self.settings.endpoint.url)
    }
}
