//! The sink: counts events and measures their latency.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, ParallelSink, RawEvent, prelude::*};

use crate::measurement::{Clock, Measurement};

/// Counts encoded events and measures their latency.
#[derive(Debug)]
pub struct Meter {
    pub(crate) host: Host,
    pub(crate) clock: Arc<Clock>,
    pub(crate) measurement: Arc<Measurement>,
    /// Duration of a delivery, which simulates a slow peer.
    pub(crate) takes: Duration,
}

impl ParallelSink for Meter {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        if self.takes.is_zero() { Demand::new().at_most(1) } else { Demand::new() }
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        if !self.takes.is_zero() {
            // Box the future, so that deliveries without a duration have a small future.
            Box::pin(self.host.sleep(self.takes)).await;
        }
        // Read the clock once for each batch, because its events arrive together.
        let now_ns = self.host.now_ns();
        let mut recording = self.measurement.recording();
        // Adjacent events with the same emission time are recorded together; at a rate, each event
        // has its own time.
        let length = |event: RawEvent<'_>| event.raw().len() as u64;
        let mut events = batch.iter().peekable();
        while let Some(first) = events.next() {
            let ingest_ns = first.ingest_ns();
            let (mut count, mut bytes) = (1, length(first));
            while let Some(next) = events.next_if(|next| next.ingest_ns() == ingest_ns) {
                count += 1;
                bytes += length(next);
            }
            if self.clock.counts(ingest_ns) {
                recording.record(now_ns, ingest_ns, count, bytes);
            }
        }
        Ok(())
    }
}
