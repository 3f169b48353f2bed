//! The standard input of a process, as a sink.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    os::fd::OwnedFd,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tremor_pdk::{Registered, prelude::*, raw_runs};

use crate::{
    latch::Who,
    process::{Exit, Lease, Process},
};

/// How many slices the system takes at once.
const SLICES: usize = 1_024;

/// How long a process that reads nothing more may take to end, before it is taken for one that goes on.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The sink: messages, one after the other, written to the standard input of the process without a copy.
///
/// `Ok(())` says that the pipe has them. What a process has not read when it ends is lost.
#[derive(Debug)]
pub struct Input {
    process: Arc<Process>,
    /// None after the last event.
    pipe: Option<Registered<OwnedFd>>,
    /// Whether what the process writes is brought by a source.
    has_output: bool,
    // Dropped after the pipe.
    _lease: Arc<Lease>,
}

impl Input {
    pub(crate) fn new(
        process: Arc<Process>,
        pipe: Registered<OwnedFd>,
        has_output: bool,
        lease: Arc<Lease>,
    ) -> Self {
        Self { process, pipe: Some(pipe), has_output, _lease: lease }
    }

    /// What comes of a delivery to a process that has ended. What it has written is brought first: the
    /// connection ends with this.
    async fn lost(&self, exit: Exit) -> Error {
        if self.has_output {
            self.process.output_ended.wait(Who::Input).await;
        }
        self.process.takes_no_more(exit)
    }

    /// What comes of a delivery to a process that has closed its standard input.
    async fn closed(&self, error: &io::Error) -> Error {
        match self.process.exits_within(ENDS_WITHIN, Who::Input).await {
            Some(exit) => self.lost(exit).await,
            None => Error::connection_lost(format!(
                "cannot write to {}, which still runs: {error}",
                self.process
            )),
        }
    }
}

impl Sink for Input {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let bytes = batch.bytes();
        let slices = raw_runs(batch).into_iter().map(|run| IoSlice::new(&bytes[run]));
        let mut slices: Vec<_> = slices.collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let Some(pipe) = &self.pipe else {
                return Err(Error::internal("events came after the last one").into());
            };
            let written = poll_fn(|context| {
                // What it has started may still have the pipe, and nobody may read it.
                if let Poll::Ready(exit) = self.process.exited.poll(Who::Input, context) {
                    return Poll::Ready(Err(exit));
                }
                let slices = &rest[..rest.len().min(SLICES)];
                pipe.poll_write_with(context, |pipe| Ok(rustix::io::writev(pipe, slices)?)).map(Ok)
            });
            match written.await {
                Ok(Ok(count)) => IoSlice::advance_slices(&mut rest, count),
                Ok(Err(error)) => return Err(self.closed(&error).await.into()),
                Err(exit) => return Err(self.lost(exit).await.into()),
            }
        }
        Ok(())
    }

    async fn on_tick(&mut self) -> Result<()> {
        if self.has_output {
            return Ok(());
        }
        // Nobody else notices that the process has exited, and the next event may come late.
        let lost = self.process.exited.get().map(|exit| self.process.takes_no_more(exit));
        lost.filter(|error| !error.is_final()).map_or(Ok(()), Err)
    }

    async fn close(&mut self) -> Result<()> {
        self.pipe = None;
        if self.has_output {
            return Ok(());
        }
        let time = self.process.config.stop_timeout.get();
        match self.process.exits_within(time, Who::Input).await {
            Some(exit) if !exit.is_success() => Err(self.process.failed_at_the_end(exit)),
            _ => Ok(()),
        }
    }
}
