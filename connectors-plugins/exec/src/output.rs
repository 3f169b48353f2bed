//! The standard output of a process, as a source.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tremor_pdk::{Registered, prelude::*};

use crate::{
    latch::Who,
    process::{Exit, Lease, Process},
};

/// How much room a read gets, in bytes: as much as a pipe holds for a process that fills it.
const LEAST: usize = 16 << 10;
const MOST: usize = 64 << 10;

/// How long what a process has started may go on writing after the process has ended.
const LINGERS: Duration = Duration::from_secs(2);

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source: what the process writes to its standard output, as one stream.
pub struct Output {
    process: Arc<Process>,
    pipe: Option<Registered<OwnedFd>>,
    /// Number of the stream that is read into.
    stream: u64,
    space: usize,
    has_brought: bool,
    /// Set once the process has ended, and its output has not.
    lingers: Option<Timer>,
    /// What comes of it, once everything is brought.
    over: Option<Result<Pull>>,
    // Dropped after the pipe.
    _lease: Arc<Lease>,
}

impl Output {
    pub(crate) fn new(
        process: Arc<Process>,
        pipe: Registered<OwnedFd>,
        lease: Arc<Lease>,
        stream: u64,
    ) -> Self {
        Self {
            process,
            pipe: Some(pipe),
            stream,
            space: LEAST,
            has_brought: false,
            lingers: None,
            over: None,
            _lease: lease,
        }
    }

    /// Reads something into the batch. Zero is the end.
    async fn read(&mut self, batch: &mut RawBatch) -> io::Result<usize> {
        let Self { process, pipe, lingers, stream, .. } = self;
        let Some(pipe) = pipe else { return Ok(0) };
        let space = self.space.min(batch.limit().bytes as usize).max(1);
        let read = poll_fn(|context| {
            let read = pipe.poll_read_with(context, |pipe| {
                batch.stream(*stream).fill_fragment(space, |space| receive(pipe, space))
            });
            if read.is_ready() || process.exited.poll(Who::Output, context).is_pending() {
                return read;
            }
            // It has ended. Others may still write to the pipe, but not for ever.
            let timer = lingers.get_or_insert_with(|| {
                let host = process.host.clone();
                Box::pin(async move { host.sleep(LINGERS).await })
            });
            timer.as_mut().poll(context).map(|()| {
                tremor_pdk::warn!(
                    process.host,
                    "{process} has ended, and something that it has started still has its output open, which \
                     is not read any more"
                );
                Ok(0)
            })
        });
        let count = read.await?;
        if count == space {
            self.space = MOST;
        } else if count < self.space / 4 {
            self.space = LEAST;
        }
        Ok(count)
    }
}

fn receive<'s>(pipe: &OwnedFd, space: &'s mut [MaybeUninit<u8>]) -> io::Result<&'s mut [u8]> {
    Ok(rustix::io::read(pipe, space).map(|(filled, _)| filled)?)
}

impl Source for Output {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        if let Some(over) = &self.over {
            return over.clone();
        }
        match self.read(batch).await {
            Ok(0) => {}
            Ok(_) => {
                self.has_brought = true;
                batch.set_origin(&self.process.name);
                return Ok(Pull::Events);
            }
            Err(error) => {
                tremor_pdk::warn!(
                    self.process.host,
                    "cannot read the output of {}: {error}",
                    self.process
                );
            }
        }
        self.pipe = None;
        // Whether the last line is whole is known once it is known how the process has ended.
        let exit = self.process.exited.wait(Who::Output).await;
        if self.has_brought {
            match exit {
                Exit::Status(_) => batch.stream(self.stream).end(),
                Exit::Signal(_) | Exit::Unknown => batch.stream(self.stream).abort(),
            }
            batch.set_origin(&self.process.name);
        }
        let over = self.process.verdict(exit).map_or(Ok(Pull::Finished), Err);
        let over = self.over.insert(over).clone();
        self.process.output_ended.set(());
        // The end of the stream comes first, and what comes of it with the next pull.
        if batch.is_empty() { over } else { Ok(Pull::Events) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.process.output_ended.set(());
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("process", &self.process).finish_non_exhaustive()
    }
}
