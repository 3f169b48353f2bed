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

use std::{collections::VecDeque, time::Duration};

use tremor_pdk::{Acks, Begin, Blocking, Rewind, Task, prelude::*};

pub(crate) use self::files::Files;
use self::{
    files::{Brought, Next},
    kept::{Kept, Pulls},
    pattern::Pattern,
};
use crate::Config;

/// Maximum number of pulls that are read together, each of another file if there are many.
const PULLS: usize = 8;

/// Reads several files in turn, a pull of one at a time, each a stream of its own. While the flow works on
/// one chunk, the next is being read.
pub struct Tail {
    host: Host,
    poll: Duration,
    /// The files; `None` while they are being read.
    files: Option<Files>,
    /// The chunk that is being read. The chunk stays here when a pull is given up, so that nothing is lost.
    reading: Option<Blocking<Chunk>>,
    /// Pulls that were read and not handed out yet.
    ready: VecDeque<(Brought, RawBatch)>,
    /// Result of the read after these pulls, if it brought nothing.
    last: Option<Result<Next>>,
    /// Batches whose buffers are used again.
    spare: Vec<RawBatch>,
    /// Streams of which the last pull ended in a part of a message.
    half: Vec<u64>,
    /// Streams of which a pull has failed, until they are read again.
    failed: Vec<Rewind<u64>>,
    /// Records the positions of pulls; `None` without a checkpoint.
    pulls: Option<Pulls>,
    /// Task that writes the checkpoint.
    keeper: Option<Task>,
    acks: Option<Box<dyn Acks>>,
}

/// Whether it takes more than to read one file to its end.
pub(crate) fn is_for_tail(config: &Config) -> bool {
    let is_pattern = || Pattern::is_pattern(&config.path) && !config.path.exists();
    config.follow || config.checkpoint.is_some() || is_pattern()
}

/// Pulls that were read together.
struct Chunk {
    files: Files,
    ready: VecDeque<(Brought, RawBatch)>,
    /// Result of the read after these pulls, if it brought nothing.
    last: Option<Result<Next>>,
    spare: Vec<RawBatch>,
}

impl Chunk {
    /// Reads pulls until they make a chunk, or there is nothing to read. May block.
    ///
    /// `waiting` has the streams of pulls that were read before and are not handed out.
    fn read(mut files: Files, mut spare: Vec<RawBatch>, waiting: Vec<u64>) -> Self {
        files.waiting = waiting;
        files.pace();
        let (mut ready, mut bytes) = (VecDeque::new(), 0);
        let last = loop {
            let mut batch = spare.pop().unwrap_or_default();
            let next = files.next(&mut batch);
            let Ok(Next::Brought(brought)) = next else {
                spare.push(batch);
                break Some(next);
            };
            bytes += batch.bytes().len();
            // A truncated file has to end a message that was begun, so the part is taken in first.
            let is_over = brought.is_half || bytes >= files.how.chunk_bytes;
            files.waiting.push(brought.stream);
            ready.push_back((brought, batch));
            if is_over || ready.len() == PULLS {
                break None;
            }
        };
        // The next chunk looks again, because more may have come by then.
        let last = last
            .filter(|it| ready.is_empty() || !matches!(it, Ok(Next::Nothing | Next::Searching)));
        Self { files, ready, last, spare }
    }
}

impl Tail {
    pub(crate) fn new(config: &Config, files: Files, host: Host) -> Self {
        let kept = files.kept.as_ref();
        Self {
            host,
            poll: config.poll_interval.get(),
            acks: kept.map(Kept::acks),
            pulls: kept.map(Kept::pulls),
            keeper: kept.map(Kept::start),
            files: Some(files),
            reading: None,
            ready: VecDeque::new(),
            last: None,
            spare: Vec::new(),
            half: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Begins to read the next chunk, unless one is being read or the last read brought nothing.
    fn read_on(&mut self) {
        if let Some(files) = self.files.take_if(|_| self.last.is_none()) {
            let spare = std::mem::take(&mut self.spare);
            let waiting = self.ready.iter().map(|(brought, _)| brought.stream).collect();
            self.reading = Some(self.host.blocking(move || Chunk::read(files, spare, waiting)));
        }
    }

    /// Waits for the chunk that is being read, if any.
    async fn take_in(&mut self) -> Result<()> {
        if let Some(reading) = &mut self.reading {
            let chunk = reading.await;
            self.reading = None;
            let Chunk { files, ready, last, spare } = chunk?;
            (self.files, self.last) = (Some(files), last);
            self.ready.extend(ready);
            self.spare.extend(spare);
        }
        Ok(())
    }

    /// Goes back to where pulls have failed. A message of these streams that has begun is cut off.
    fn rewind(&mut self, batch: &mut RawBatch) {
        let Some(files) = &mut self.files else { return };
        self.last = None;
        for Rewind { stream, from } in self.failed.drain(..) {
            self.ready.retain(|(brought, _)| brought.stream != stream);
            let is_at_start = files.rewind(stream, from);
            let half = self.half.iter().position(|half| *half == stream);
            if let Some(at) = half {
                self.half.swap_remove(at);
            }
            // Preprocessors treat the start of a stream in their own way, such as a UTF-8 signature.
            if half.is_some() || is_at_start {
                batch.stream(stream).abort();
            }
        }
    }
}

impl Source for Tail {
    type Batch = RawBatch;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.acks.take()
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        loop {
            if self.ready.is_empty() && self.last.is_none() {
                self.read_on();
                if self.reading.is_none() && self.files.is_none() {
                    return Err(Error::unsupported("cannot read on: an earlier attempt failed"));
                }
                self.take_in().await?;
            }
            if self.failed.is_empty() {
                let Some(pulls) = &self.pulls else { break };
                match pulls.begin(batch) {
                    Begin::Rewind(streams) => self.failed = streams,
                    Begin::Write(mut writer) => {
                        if let Some((brought, filled)) = self.ready.front_mut() {
                            pulls.set_bytes(writer.pull(), filled.bytes().len() as u64);
                            writer.exchange(brought.stream, brought.position, filled);
                        }
                        break;
                    }
                }
            }
            // The files are rewound only once they are at hand: one could be closed before it is read again.
            if self.reading.is_none() {
                self.rewind(batch);
                return Ok(Pull::Idle(Duration::ZERO));
            }
            self.take_in().await?;
        }
        // From here on nothing waits.
        if let Some((brought, mut filled)) = self.ready.pop_front() {
            self.half.retain(|half| *half != brought.stream && Some(*half) != brought.cut_off);
            self.half.extend(brought.is_half.then_some(brought.stream));
            if self.pulls.is_none() {
                batch.exchange(&mut filled);
            }
            self.spare.push(filled);
            // While the flow works on this, the next is read.
            self.read_on();
            return Ok(Pull::Events);
        }
        match self.last.take() {
            Some(Ok(Next::Finished)) => Ok(Pull::Finished),
            Some(Ok(Next::Searching)) => Ok(Pull::Idle(Duration::from_millis(1).min(self.poll))),
            Some(Err(error)) => Err(error),
            _ => Ok(Pull::Idle(self.poll)),
        }
    }

    async fn close(&mut self) -> Result<()> {
        self.keeper = None;
        self.take_in().await?;
        let Some(mut files) = self.files.take() else { return Ok(()) };
        self.host.blocking(move || files.close()).await?
    }
}

#[cfg(test)]
mod tests;
