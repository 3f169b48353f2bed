//! The `prometheus_exporter` connector: serves the latest samples as a page for scrapes.
//!
//! ```yaml
//! connectors:
//!   metrics:
//!     type: prometheus_exporter
//!     config: { listen: '0.0.0.0:9200' }
//! ```

mod config;
mod registry;
mod sink;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_pdk::{NoSource, prelude::*};

pub use self::{config::Config, sink::Exporter};
use self::{
    registry::{Limits, Registry},
    sink::Store,
};
use super::labels::AddedLabels;
use crate::server::{Listening, Page, Service};

/// Serves the latest samples as a page for scrapes.
pub struct PrometheusExporter {
    listening: Listening,
    store: Arc<Store>,
}

impl Component for PrometheusExporter {
    const NAME: &str = "prometheus_exporter";
    const DESCRIPTION: &str =
        "Serves the latest sample of each series at `/metrics` for Prometheus.";
    type Config = Config;

    fn new(config: Config, context: ComponentContext) -> Result<Self> {
        let server = config.server();
        let limits = Limits {
            max_series: config.max_series.get(),
            expire_after: config.expire_after.get(),
            has_timestamps: config.timestamps,
        };
        let registry = Arc::new(Registry::new(limits, context.memory()));
        let labels = AddedLabels::new(config.labels)?;
        let service = Service::Page(registry.clone());
        let store = Arc::new(Store::new(&context, registry, labels));
        Ok(Self { listening: Listening::new(server, service, context)?, store })
    }
}

impl Connector for PrometheusExporter {
    type Source = NoSource;
    type Sink = Exporter;

    /// Listens. The series outlive the connection.
    async fn connect(&mut self, _wanted: Sides) -> Result<Halves<NoSource, Exporter>> {
        let serving = self.listening.serve().await?;
        Ok(Halves::sink(Exporter::new(serving, self.store.clone())))
    }
}

impl std::fmt::Debug for PrometheusExporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PrometheusExporter").field(&self.listening).finish()
    }
}

impl Page for Registry {
    fn body(&self) -> Vec<u8> {
        self.page().into_bytes()
    }

    fn content_type(&self) -> &'static str {
        "text/plain; version=0.0.4; charset=utf-8"
    }
}
