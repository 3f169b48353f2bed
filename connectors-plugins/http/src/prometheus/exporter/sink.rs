//! The sink: stores samples.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Counter, Gauge, LimitedLog, StructuredEvent, prelude::*, warn};

use super::registry::{Registry, Stored, Texts};
use crate::{
    prometheus::{
        labels::AddedLabels,
        sample::{Labels, Sample},
    },
    server::Serving,
};

/// Period in which at most one line of the same kind is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// State of the sink that outlives a connection.
pub(crate) struct Store {
    host: Host,
    registry: Arc<Registry>,
    labels: AddedLabels,
    series: Gauge,
    expired: Counter,
    refused: Counter,
    log: LimitedLog,
}

impl Store {
    pub(crate) fn new(host: &Host, registry: Arc<Registry>, labels: AddedLabels) -> Self {
        Self {
            host: host.clone(),
            registry,
            labels,
            series: host.gauge("series", "Series that the page has."),
            expired: host.counter(
                "series_expired",
                "Series that were removed because they had no sample for `expire_after`.",
            ),
            refused: host.counter(
                "samples_refused",
                "Samples of further series after `max_series` was reached.",
            ),
            log: host.limited_log(1, LOGGED_EVERY),
        }
    }

    fn store<'v>(
        &'v self,
        event: StructuredEvent<'v>,
        labels: &mut Labels<'v>,
        texts: &mut Texts,
        now_ns: u64,
    ) -> Result<Stored> {
        let sample = Sample::read(event.value())?;
        labels.read(&sample)?;
        self.labels.add(event.into(), labels)?;
        let stored = self.registry.store(&sample, labels, texts, now_ns);
        if let Err(error) = &stored
            && error.kind() == tremor_pdk::ErrorKind::FULL
        {
            self.refused.add(1);
            warn!(self.log, "{error}");
        }
        stored
    }

    fn expire(&self) {
        let expired = self.registry.expire(self.host.monotonic_ns());
        self.expired.add(expired as u64);
        self.series.set_integer(self.registry.len());
    }
}

/// Stores samples, and serves the page.
pub struct Exporter {
    serving: Serving,
    store: Arc<Store>,
}

impl Exporter {
    pub(crate) const fn new(serving: Serving, store: Arc<Store>) -> Self {
        Self { serving, store }
    }
}

impl Sink for Exporter {
    type Batch = StructuredBatch;

    async fn deliver(&mut self, batch: &StructuredBatch) -> Delivery {
        let store = &self.store;
        let now_ns = store.host.monotonic_ns();
        let mut exceptions = Exceptions::none();
        let (mut labels, mut texts) = (Labels::default(), Texts::default());
        for event in batch {
            if let Err(error) = store.store(event, &mut labels, &mut texts, now_ns) {
                exceptions.reject(event, error);
            }
        }
        store.series.set_integer(store.registry.len());
        exceptions.into()
    }

    async fn on_tick(&mut self) -> Result<()> {
        self.store.expire();
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        self.serving.drain().await;
        Ok(())
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporter")
    }
}
