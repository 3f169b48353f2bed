//! The source of files that are followed, or that are gone on with after a crash.

mod checkpoint;
mod clock;
mod files;
mod finds;
mod identity;
mod input;
mod kept;
mod pattern;
mod search;
mod walk;

use std::time::Duration;

use tremor_pdk::{Blocking, prelude::*};

pub(crate) use self::files::Files;
use self::{files::Next, pattern::Pattern};
use crate::Config;

/// Reads several files in turn, a chunk of one at a time, each a stream of its own. While the flow works on
/// one chunk, the next is being read.
pub struct Tail {
    host: Host,
    poll: Duration,
    /// None while they are being read.
    files: Option<Files>,
    /// What is being read. It stays here when a pull is given up, so that nothing is lost.
    reading: Option<Blocking<Chunk>>,
    acks: Option<Box<dyn Acks>>,
}

/// Whether it takes more than to read one file to its end.
pub(crate) fn is_for_tail(config: &Config) -> bool {
    let is_pattern = || Pattern::is_pattern(&config.path) && !config.path.exists();
    config.follow || config.checkpoint.is_some() || is_pattern()
}

/// What was read, in the batch that it is to be delivered in.
struct Chunk {
    files: Files,
    batch: Batch,
    next: Result<Next>,
}

impl Tail {
    pub(crate) fn new(config: &Config, files: Files, host: Host) -> Self {
        let acks = files.acks();
        let poll = config.poll_interval.get();
        Self { host, poll, files: Some(files), reading: None, acks }
    }

    fn read(&self, mut files: Files, mut batch: Batch) -> Blocking<Chunk> {
        self.host.blocking(move || {
            let next = files.next(&mut batch);
            Chunk { files, batch, next }
        })
    }

    /// What is being read, once it is.
    async fn chunk(&mut self, batch: &mut Batch) -> Result<Chunk> {
        let reading = match (self.reading.take(), self.files.take()) {
            (Some(reading), _) => reading,
            (None, Some(files)) => {
                // The number of the pull stays here.
                let mut buffers = Batch::new();
                buffers.exchange(batch);
                self.read(files, buffers)
            }
            (None, None) => {
                return Err(Error::unsupported("cannot read on: an earlier attempt failed"));
            }
        };
        let chunk = self.reading.insert(reading).await;
        self.reading = None;
        chunk
    }
}

impl Source for Tail {
    const CODEC: CodecRequirement = CodecRequirement::Required;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.acks.take()
    }

    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        let Chunk { mut files, batch: mut chunk, next } = self.chunk(batch).await?;
        // From here on nothing waits.
        let failed = files.failed();
        let next = match next {
            // It is read again.
            Ok(Next::Brought(brought)) if failed.iter().any(|&(it, _)| it == brought.stream) => {
                chunk = Batch::new();
                Ok(Next::Nothing)
            }
            next => next,
        };
        for &(stream, from) in &failed {
            if files.rewind(stream, from) {
                chunk.stream(stream).abort();
            }
        }
        let pull = match &next {
            Ok(Next::Brought(brought)) => {
                chunk.set_origin(&brought.path.to_string_lossy());
                files.brought(batch.pull(), brought);
                Ok(Pull::Events)
            }
            Ok(_) if !failed.is_empty() => Ok(Pull::Idle(Duration::ZERO)),
            Ok(Next::Searching) => Ok(Pull::Idle(Duration::from_millis(1).min(self.poll))),
            Ok(Next::Nothing) => Ok(Pull::Idle(self.poll)),
            Ok(Next::Finished) => Ok(Pull::Finished),
            Err(error) => Err(error.clone()),
        };
        batch.exchange(&mut chunk);
        // While the flow works on this, the next is read.
        if matches!(pull, Ok(Pull::Events)) {
            self.reading = Some(self.read(files, chunk));
        } else {
            self.files = Some(files);
        }
        pull
    }

    async fn close(&mut self) -> Result<()> {
        let mut files = match (self.reading.take(), self.files.take()) {
            (Some(reading), _) => reading.await?.files,
            (None, Some(files)) => files,
            (None, None) => return Ok(()),
        };
        self.host.blocking(move || files.commit()).await?
    }
}

#[cfg(test)]
mod tests;
