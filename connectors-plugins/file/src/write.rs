//! The sink: writes messages to a file and acknowledges them once they are as durable as
//! configured.

mod begin;
mod inline;
mod name;
mod output;
mod rotation;
mod syncing;
mod torn;

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, ParallelSink, prelude::*, raw_runs};

pub(crate) use self::output::Output;
use self::syncing::Due;

/// Writes messages to a file, usually all messages of a batch with one system call.
///
/// If a write fails, for example on a full disk, the written part of the batch is removed, and the
/// runtime delivers the batch again. The file therefore contains no incomplete message, and no
/// message twice.
///
/// In a compressed file each batch is a complete member (a stream of its own, which can be
/// decompressed alone). Therefore other programs can read the delivered batches at any time, and an
/// incomplete batch can be removed.
///
/// Several deliveries may be in flight. They are written one after the other, and one sync makes
/// several of them durable.
pub struct Writer {
    host: Host,
    output: Arc<Output>,
}

impl Writer {
    pub(crate) fn new(output: Arc<Output>, host: Host) -> Self {
        Self { host, output }
    }

    /// Waits until `delivery` and all earlier deliveries are durable, and syncs the file itself
    /// once a sync is due. Returns immediately with `sync: never`.
    async fn make_durable(&self, delivery: u64) -> Result<()> {
        loop {
            match self.output.due(delivery, self.host.monotonic_ns()) {
                Due::Never => return Ok(()),
                Due::In(time) => self.host.sleep(Duration::from_nanos(time)).await,
                Due::Now => {
                    let (output, host) = (self.output.clone(), self.host.clone());
                    self.host
                        .blocking(move || output.sync(delivery, host.monotonic_ns()))
                        .await??;
                }
            }
        }
    }
}

impl ParallelSink for Writer {
    type Batch = RawBatch;

    fn demand(&self) -> Demand {
        // Deliveries in parallel are faster only if one sync serves several of them.
        if self.output.waits_for_disk() { Demand::new() } else { Demand::new().at_most(1) }
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let runs = raw_runs(batch);
        self.output.check_end(batch)?;
        if let Some(pipe) = self.output.pipe() {
            // Await readiness first, so that a full pipe whose reader is idle blocks no thread.
            self.host.writable(pipe).await?;
        }
        let delivery = if let Some(written) = self.output.try_write_inline(batch.bytes(), &runs) {
            written?
        } else {
            // Shares the buffer with the writing thread instead of copying the events.
            let (output, buffers) = (self.output.clone(), batch.part(0..0));
            let write = move || output.write(buffers.bytes(), &runs);
            self.host.blocking(write).await??
        };
        Ok(self.make_durable(delivery).await?)
    }

    async fn close(&self) -> Result<()> {
        let output = self.output.clone();
        self.host.blocking(move || output.finish()).await?
    }
}

#[cfg(test)]
mod tests;
