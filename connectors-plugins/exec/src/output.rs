//! The source: the standard output of a process.

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
    latch::Waiter,
    process::{Exit, Lease, Process},
};

/// Numbers of bytes per read. The large number is the capacity of a pipe, and is used while the
/// process fills the pipe.
const SMALL_READ: usize = 16 << 10;
const LARGE_READ: usize = 64 << 10;

/// Maximum time for which the output of child processes is read after the process has ended.
const LINGER: Duration = Duration::from_secs(2);

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Reads the standard output of the process as one stream.
pub struct Output {
    process: Arc<Process>,
    pipe: Option<Registered<OwnedFd>>,
    /// Number of the stream.
    stream: u64,
    space: usize,
    has_data: bool,
    /// Timer for [`LINGER`]. The timer starts when the process has ended and its output is still
    /// open.
    linger: Option<Timer>,
    /// Result of further pulls, once all output was returned; `None` before that.
    result: Option<Result<Pull>>,
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
            space: SMALL_READ,
            has_data: false,
            linger: None,
            result: None,
            _lease: lease,
        }
    }

    /// Reads into the batch. Returns 0 at the end of the output.
    async fn read(&mut self, batch: &mut RawBatch) -> io::Result<usize> {
        let Self { process, pipe, linger, stream, .. } = self;
        let Some(pipe) = pipe else { return Ok(0) };
        let space = self.space.min(batch.limit().bytes).max(1);
        let read = poll_fn(|context| {
            let read = pipe.poll_read_with(context, |pipe| {
                batch.stream(*stream).fill_fragment(space, |space| receive(pipe, space))
            });
            if read.is_ready() || process.exited.poll(Waiter::Output, context).is_pending() {
                return read;
            }
            // The process has ended. Child processes may still write to the pipe, so read it for a
            // limited time.
            let timer = linger.get_or_insert_with(|| {
                let host = process.host.clone();
                Box::pin(async move { host.sleep(LINGER).await })
            });
            timer.as_mut().poll(context).map(|()| {
                tremor_pdk::warn!(
                    process.host,
                    "stopped reading the output of {process}: the process has ended, but a child process still \
                     keeps the output open"
                );
                Ok(0)
            })
        });
        let count = read.await?;
        if count == space {
            self.space = LARGE_READ;
        } else if count < self.space / 4 {
            self.space = SMALL_READ;
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
        if let Some(result) = &self.result {
            return result.clone();
        }
        match self.read(batch).await {
            Ok(0) => {}
            Ok(_) => {
                self.has_data = true;
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
        // Wait for the exit status, because the last line counts as complete only after a success.
        let exit = self.process.exited.wait(Waiter::Output).await;
        if self.has_data {
            match exit {
                Exit::Status(_) => batch.stream(self.stream).end(),
                Exit::Signal(_) | Exit::Unknown => batch.stream(self.stream).abort(),
            }
            batch.set_origin(&self.process.name);
        }
        let result = self.process.verdict(exit).map_or(Ok(Pull::Finished), Err);
        let result = self.result.insert(result).clone();
        self.process.output_ended.set(());
        // If there is an end of the stream to return, the next pull returns the result.
        if batch.is_empty() { result } else { Ok(Pull::Events) }
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
