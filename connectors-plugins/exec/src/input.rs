//! The sink: the standard input of a process.

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
    latch::Waiter,
    process::{Exit, Lease, Process},
};

/// Maximum number of slices per write, which the system limits (`IOV_MAX`).
const SLICES: usize = 1_024;

/// Maximum time to wait for the end of a process that has closed its standard input. After that
/// time, the error says that the process still runs.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Writes messages to the standard input of the process, one after the other, without copying them.
///
/// A delivery succeeds once the pipe has all its bytes. If the process ends before it has read
/// them, they are lost.
#[derive(Debug)]
pub struct Input {
    process: Arc<Process>,
    /// The pipe; `None` after the last event.
    pipe: Option<Registered<OwnedFd>>,
    /// `true` if a source reads the output of the process.
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

    /// Returns the error of a delivery to a process that has ended. First waits until the source
    /// has returned all output, because the error ends the connection.
    async fn lost(&self, exit: Exit) -> Error {
        if self.has_output {
            self.process.output_ended.wait(Waiter::Input).await;
        }
        self.process.undeliverable(exit)
    }

    /// Returns the error of a delivery to a process that has closed its standard input.
    async fn closed(&self, error: &io::Error) -> Error {
        match self.process.exits_within(ENDS_WITHIN, Waiter::Input).await {
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
                return Err(Error::internal("received events after `close`").into());
            };
            let written = poll_fn(|context| {
                // Check the end of the process too, because child processes that do not read the
                // pipe may still have it open.
                if let Poll::Ready(exit) = self.process.exited.poll(Waiter::Input, context) {
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
        // Report the end of the process now: without a source, only the next delivery would detect
        // the end, and the next event may arrive much later.
        let lost = self.process.exited.get().map(|exit| self.process.undeliverable(exit));
        lost.filter(|error| !error.is_final()).map_or(Ok(()), Err)
    }

    async fn close(&mut self) -> Result<()> {
        self.pipe = None;
        if self.has_output {
            return Ok(());
        }
        let time = self.process.config.stop_timeout.get();
        match self.process.exits_within(time, Waiter::Input).await {
            Some(exit) if !exit.is_success() => Err(self.process.failed_at_the_end(exit)),
            _ => Ok(()),
        }
    }
}
