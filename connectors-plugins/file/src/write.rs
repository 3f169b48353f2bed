//! The sink: writes messages to a file and acknowledges them once they are as durable as
//! configured.

mod begin;
mod inline;
mod location;
mod name;
mod output;
mod problem;
mod rotation;
mod runs;
mod syncing;
mod targets;
mod torn;
mod turns;

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Demand, ParallelSink, prelude::*, raw_runs};

use self::{
    output::Output,
    syncing::Due,
    targets::Targets,
    turns::{Turn, Turns},
};
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
/// Several deliveries may be in flight. They are written one after the other, in the order in which
/// they began, and one sync makes several of them durable.
pub struct Writer {
    host: Host,
    destination: Destination,
}

/// The files to which a sink writes, and the order of its deliveries. They are kept across connections, because a
/// cancelled delivery may still write on a thread.
#[derive(Clone)]
pub(crate) struct Destination {
    files: Files,
    turns: Turns,
}

#[derive(Clone)]
enum Files {
    /// The file of the configuration.
    Fixed(Arc<Output>),
    /// The files that events name.
    ByEvent(Arc<Targets>),
}

impl Destination {
    /// Prepares the file of the configuration, or the folder of the files that events name. May block.
    pub(crate) fn open(config: &Config, host: Host) -> Result<Self> {
        let files = match &config.by_event {
            None => Files::Fixed(Output::open(config, host)?.into()),
            Some(by_event) => Files::ByEvent(Targets::new(config, by_event, host)?.into()),
        };
        Ok(Self { files, turns: Turns::default() })
    }

    /// Returns whether the file is a pipe that no process reads any longer. Does not block.
    pub(crate) fn has_lost_reader(&self) -> bool {
        matches!(&self.files, Files::Fixed(output) if output.has_lost_reader())
    }
}

impl Writer {
    pub(crate) fn new(destination: Destination, host: Host) -> Self {
        Self { host, destination }
    }

    /// Writes a batch to the file of the configuration.
    async fn deliver_to(&self, output: &Arc<Output>, batch: &RawBatch, turn: Turn) -> Delivery {
        let runs = raw_runs(batch);
        output.check_end(batch)?;
        if let Some(pipe) = output.pipe() {
            // Await readiness first, so that a full pipe whose reader is idle blocks no thread.
            self.host.writable(pipe).await?;
        }
        let delivery = if let Some(written) = output.try_write_inline(batch.bytes(), &runs) {
            drop(turn);
            written?
        } else {
            // Shares the buffer with the writing thread instead of copying the events.
            let (output, buffers) = (output.clone(), batch.part(0..0));
            let write = move || {
                let _turn = turn;
                output.write(buffers.bytes(), &runs)
            };
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
        match &self.destination.files {
            Files::Fixed(output) => demand(output.waits_for_disk()),
            Files::ByEvent(targets) => Targets::demand(demand(targets.waits_for_disk())),
        }
    }

    async fn deliver(&self, batch: &RawBatch) -> Delivery {
        let turn = self.destination.turns.take().await;
        match &self.destination.files {
            Files::Fixed(output) => self.deliver_to(output, batch, turn).await,
            Files::ByEvent(targets) => targets.deliver(&self.host, batch, turn).await,
        }
    }

    async fn on_tick(&self) -> Result<()> {
        if let Files::ByEvent(targets) = &self.destination.files
            && targets.has_idle()
        {
            let targets = targets.clone();
            self.host.blocking(move || targets.close_idle()).await?;
        }
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        // A delivery that was cancelled may still write.
        let _turn = self.destination.turns.take().await;
        match &self.destination.files {
            Files::Fixed(output) => {
                let output = output.clone();
                self.host.blocking(move || output.finish()).await?
            }
            Files::ByEvent(targets) => targets.finish(&self.host).await,
        }
    }
}

#[cfg(test)]
mod tests;
