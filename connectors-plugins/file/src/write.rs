//! The sink: writes messages to a file and acknowledges them once they are as durable as
//! configured.

mod begin;
mod inline;
mod location;
mod name;
mod output;
mod problem;
mod rotation;
mod syncing;
mod targets;
mod torn;

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, ParallelSink, prelude::*, raw_runs};

use self::{output::Output, syncing::Due, targets::Targets};
use crate::Config;

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
/// If the path is a template, each event names its file. The events of a batch are grouped by file, and each group is
/// written with one system call. An event that cannot be written does not affect the events of other files.
///
/// Several deliveries may be in flight. They are written one after the other, and one sync makes
/// several of them durable.
pub struct Writer {
    host: Host,
    destination: Destination,
}

/// The files to which a sink writes. They are kept across connections.
#[derive(Clone)]
pub(crate) enum Destination {
    /// The file of the configuration.
    File(Arc<Output>),
    /// The files that events name.
    ByEvent(Arc<Targets>),
}

impl Destination {
    /// Prepares the file of the configuration, or the folder of the files that events name. May block.
    pub(crate) fn open(config: &Config, host: Host) -> Result<Self> {
        Ok(match &config.by_event {
            None => Self::File(Output::open(config, host)?.into()),
            Some(by_event) => Self::ByEvent(Targets::new(config, by_event, host)?.into()),
        })
    }

    /// Returns whether the file is a pipe that no process reads any longer. Does not block.
    pub(crate) fn has_lost_reader(&self) -> bool {
        matches!(self, Self::File(output) if output.has_lost_reader())
    }
}

impl Writer {
    pub(crate) fn new(destination: Destination, host: Host) -> Self {
        Self { host, destination }
    }

    /// Writes a batch to the file of the configuration.
    async fn deliver_to(&self, output: &Arc<Output>, batch: &RawBatch) -> Delivery {
        let runs = raw_runs(batch);
        output.check_end(batch)?;
        if let Some(pipe) = output.pipe() {
            // Await readiness first, so that a full pipe whose reader is idle blocks no thread.
            self.host.writable(pipe).await?;
        }
        let delivery = if let Some(written) = output.try_write_inline(batch.bytes(), &runs) {
            written?
        } else {
            // Shares the buffer with the writing thread instead of copying the events.
            let (output, buffers) = (output.clone(), batch.part(0..0));
            let write = move || output.write(buffers.bytes(), &runs);
            self.host.blocking(write).await??
        };
        Ok(self.make_durable(output, delivery).await?)
    }

    /// Waits until `delivery` and all earlier deliveries are durable, and syncs the file itself
    /// once a sync is due. Returns immediately with `sync: never`.
    async fn make_durable(&self, output: &Arc<Output>, delivery: u64) -> Result<()> {
        loop {
            match output.due(delivery, self.host.monotonic_ns()) {
                Due::Never => return Ok(()),
                Due::In(time) => self.host.sleep(Duration::from_nanos(time)).await,
                Due::Now => {
                    let (output, host) = (output.clone(), self.host.clone());
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
        let demand = |waits| if waits { Demand::new() } else { Demand::new().at_most(1) };
        match &self.destination {
            Destination::File(output) => demand(output.waits_for_disk()),
            Destination::ByEvent(targets) => Targets::demand(demand(targets.waits_for_disk())),
        }
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        match &self.destination {
            Destination::File(output) => self.deliver_to(output, batch).await,
            Destination::ByEvent(targets) => targets.deliver(&self.host, batch).await,
        }
    }

    async fn on_tick(&self) -> Result<()> {
        if let Destination::ByEvent(targets) = &self.destination
            && targets.has_idle()
        {
            let targets = targets.clone();
            self.host.blocking(move || targets.close_idle()).await?;
        }
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        match &self.destination {
            Destination::File(output) => {
                let output = output.clone();
                self.host.blocking(move || output.finish()).await?
            }
            Destination::ByEvent(targets) => targets.finish(&self.host).await,
        }
    }
}

#[cfg(test)]
mod tests;
