//! The sink: one message after the other, each acknowledged once it is as safe as was asked for.

mod begin;
mod name;
mod output;
mod quick;
mod rotation;
mod syncing;
mod torn;

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, ParallelSink, prelude::*, raw_runs};

pub(crate) use self::output::Output;
use self::syncing::Due;

/// Writes messages to a file: a batch, usually, with one write.
///
/// Where the disk is full, the batch is taken off again and asked for again: no message is ever in the
/// file in part or twice.
///
/// A compressed file gets every batch as a member of its own. So what was delivered is in the file
/// and can be read, and what could not be written in whole can be taken off again.
///
/// Several deliveries may be under way. They are written one after the other, and wait for the disk
/// together.
pub struct Writer {
    host: Host,
    output: Arc<Output>,
}

impl Writer {
    pub(crate) fn new(output: Arc<Output>, host: Host) -> Self {
        Self { host, output }
    }

    /// Waits until what was written up to this delivery is on the disk.
    async fn synced(&self, delivery: u64) -> Result<()> {
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
        // Several deliveries at a time are faster only if they wait for the disk together.
        if self.output.waits_for_disk() { Demand::new() } else { Demand::new().at_most(1) }
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let runs = raw_runs(batch);
        self.output.check_end(batch)?;
        if let Some(pipe) = self.output.pipe() {
            // A reader that reads nothing occupies no thread as long as the pipe is full.
            self.host.writable(pipe).await?;
        }
        let delivery = if let Some(written) = self.output.write_quickly(batch.bytes(), &runs) {
            written?
        } else {
            // Shares the bytes with the thread that writes, and copies no events.
            let (output, buffers) = (self.output.clone(), batch.part(0..0));
            let write = move || output.write(buffers.bytes(), &runs);
            self.host.blocking(write).await??
        };
        Ok(self.synced(delivery).await?)
    }

    async fn close(&self) -> Result<()> {
        let output = self.output.clone();
        self.host.blocking(move || output.finish()).await?
    }
}

#[cfg(test)]
mod tests;
