//! The sink: counts and measures.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, ParallelSink, RawEvent, prelude::*};

use crate::measurement::{Clock, Measurement};

/// Counts encoded events and measures how long they took.
#[derive(Debug)]
pub struct Meter {
    pub(crate) host: Host,
    pub(crate) clock: Arc<Clock>,
    pub(crate) measurement: Arc<Measurement>,
    /// How long a delivery takes.
    pub(crate) takes: Duration,
}

impl ParallelSink for Meter {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        if self.takes.is_zero() { Demand::new().at_most(1) } else { Demand::new() }
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        if !self.takes.is_zero() {
            // In a box, so that a delivery that takes no time is a small future.
            Box::pin(self.host.sleep(self.takes)).await;
        }
        // One clock read a batch: it arrives as a whole.
        let now_ns = self.host.now_ns();
        let mut recording = self.measurement.recording();
        // Neighbours that were sent at one time are one record; at a rate each has a time of its own.
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
