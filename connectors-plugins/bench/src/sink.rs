//! The sink: counts and measures.

use std::sync::Arc;

use tremor_pdk::prelude::*;

use crate::measurement::{Clock, Measurement};

/// Counts encoded events and measures how long they took.
#[derive(Debug)]
pub struct Meter {
    pub(crate) host: Host,
    pub(crate) clock: Arc<Clock>,
    pub(crate) measurement: Arc<Measurement>,
}

impl Sink for Meter {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    async fn deliver(&mut self, batch: &Batch) -> Delivery {
        // One clock read a batch: it arrives as a whole.
        let now_ns = self.host.now_ns();
        let mut recording = self.measurement.recording();
        // Neighbours that were sent at one time are one record; at a rate each has a time of its own.
        for run in batch.events().chunk_by(|one, next| one.ingest_ns == next.ingest_ns) {
            let ingest_ns = run[0].ingest_ns;
            if !self.clock.counts(ingest_ns) {
                continue;
            }
            let bytes: u64 = run
                .iter()
                .filter_map(|event| batch.raw(event))
                .map(|message| message.len() as u64)
                .sum();
            recording.record(now_ns, ingest_ns, run.len() as u64, bytes);
        }
        Ok(())
    }
}
