//! The source for files that are followed, that have a checkpoint, or that match a pattern.

mod checkpoint;
mod clock;
mod copies;
mod cut;
mod files;
mod gauges;
mod identity;
mod input;
mod losses;
mod many;
mod names;
mod open;
mod packed;
mod pattern;
mod positions;
mod predecessors;
mod pull;
mod results;
mod search;
mod settle;
mod summary;
mod unreadable;
mod upkeep;
mod walk;

use std::{collections::VecDeque, time::Duration};

use tremor_pdk::{Acks, Begin, Blocking, Held, Rewind, Task, Upkeep, prelude::*};

pub(crate) use self::{files::Files, open::default_max_open, pattern::Pattern};
use self::{
    files::Next,
    positions::{Positions, Pulls},
    pull::PullInfo,
};
use crate::Config;

/// Maximum number of pulls that are read in one blocking task. If there are many files, each of
/// these pulls reads another file.
const PULLS: usize = 8;

/// Time between two calls of [`Files::upkeep`].
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads several files in turn; each pull has data of one file. Each file is a stream. While the
/// flow processes one chunk, a blocking task reads the next.
pub struct Tail {
    host: Host,
    poll: Duration,
    /// The files. A blocking task that reads from them holds them meanwhile.
    files: Upkeep<Files>,
    /// The chunk that is being read. If a pull is cancelled, the chunk stays here, so that no data
    /// is lost.
    reading: Option<Blocking<Chunk>>,
    /// Pulls that were read but not returned yet.
    ready: VecDeque<(PullInfo, RawBatch)>,
    /// Result of the read that followed the pulls in `ready`, if that read returned no events.
    last: Option<Result<Next>>,
    /// Batches whose buffers are reused.
    spare: Vec<RawBatch>,
    /// Streams whose last returned pull ended within a message.
    partial: Vec<u64>,
    /// Streams with a failed pull that have not been rewound yet.
    failed: Vec<Rewind<u64>>,
    /// Records the positions of pulls; `None` without a checkpoint.
    pulls: Option<Pulls>,
    /// Task that writes the checkpoint.
    keeper: Option<Task>,
    acks: Option<Box<dyn Acks>>,
}

/// Returns whether the configuration needs [`Tail`]: a checkpoint, `follow` or a pattern of files.
pub(crate) fn is_for_tail(config: &Config) -> bool {
    let is_pattern = || Pattern::is_pattern(&config.path) && !config.path.exists();
    config.follow || config.checkpoint.is_some() || is_pattern()
}

/// Pulls that were read in one blocking task.
struct Chunk {
    ready: VecDeque<(PullInfo, RawBatch)>,
    /// Result of the read that followed these pulls, if that read returned no events.
    last: Option<Result<Next>>,
    spare: Vec<RawBatch>,
}

impl Chunk {
    /// Reads pulls until they fill a chunk, until their number is [`PULLS`], or until nothing is
    /// left to read. May block.
    ///
    /// `waiting` contains the streams of earlier pulls that were not returned yet.
    fn read(files: &mut Files, mut spare: Vec<RawBatch>, waiting: Vec<u64>) -> Self {
        files.begin_chunk(waiting);
        let (mut ready, mut bytes) = (VecDeque::new(), 0);
        let last = loop {
            let mut batch = spare.pop().unwrap_or_default();
            let next = files.next(&mut batch);
            let Ok(Next::Pull(info)) = next else {
                spare.push(batch);
                break Some(next);
            };
            bytes += info.bytes;
            // A pull that ends within a message is the last of its chunk: if the file is truncated
            // later, the source has to know that the flow has an incomplete message.
            let is_over = info.is_partial || bytes >= files.options.chunk_bytes;
            files.waiting.push(info.stream);
            ready.push_back((info, batch));
            if is_over || ready.len() == PULLS {
                break None;
            }
        };
        // If there are pulls, discard a result without data, because more data may arrive before
        // the next chunk is read.
        let last =
            last.filter(|it| ready.is_empty() || !matches!(it, Ok(Next::Nothing | Next::Working)));
        Self { ready, last, spare }
    }
}

impl Tail {
    pub(crate) fn new(config: &Config, files: Files, host: Host) -> Self {
        let positions = files.positions.as_ref();
        Self {
            poll: config.poll_interval.get(),
            acks: positions.map(Positions::acks),
            pulls: positions.map(Positions::pulls),
            keeper: positions.map(Positions::start),
            files: host.upkeep("search", INTERVAL, files, Files::upkeep),
            host,
            reading: None,
            ready: VecDeque::new(),
            last: None,
            spare: Vec::new(),
            partial: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Starts to read the next chunk.
    fn read_on(&mut self, mut files: Held<Files>) {
        let spare = std::mem::take(&mut self.spare);
        let waiting = self.ready.iter().map(|(info, _)| info.stream).collect();
        self.reading = Some(self.host.blocking(move || Chunk::read(&mut files, spare, waiting)));
    }

    /// Waits for the chunk that is being read, if any.
    async fn finish_read(&mut self) -> Result<()> {
        if let Some(reading) = &mut self.reading {
            let chunk = reading.await;
            self.reading = None;
            let Chunk { ready, last, spare } = chunk?;
            self.last = last;
            self.ready.extend(ready);
            self.spare.extend(spare);
        }
        Ok(())
    }

    /// Rewinds the streams with failed pulls, and aborts their incomplete messages.
    fn rewind(&mut self, files: &mut Files, batch: &mut RawBatch) {
        self.last = None;
        for Rewind { stream, from } in self.failed.drain(..) {
            self.ready.retain(|(info, _)| info.stream != stream);
            let is_at_start = files.rewind(stream, from);
            let partial = self.partial.iter().position(|partial| *partial == stream);
            if let Some(at) = partial {
                self.partial.swap_remove(at);
            }
            // Abort also at the start of the stream, because preprocessors treat the start
            // specially: for example, they remove a UTF-8 byte order mark.
            if partial.is_some() || is_at_start {
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
                if self.reading.is_none() {
                    let files = self.files.hold().await?;
                    self.read_on(files);
                }
                self.finish_read().await?;
            }
            if self.failed.is_empty() {
                let Some(pulls) = &self.pulls else { break };
                match pulls.begin(batch) {
                    Begin::Rewind(streams) => self.failed = streams,
                    Begin::Write(mut writer) => {
                        if let Some((info, filled)) = self.ready.front_mut() {
                            pulls.register(writer.pull(), info);
                            writer.exchange_parts(info.stream, &info.ends, info.position, filled);
                        }
                        break;
                    }
                }
            }
            // Rewind only when no read is in progress: the files belong to the blocking task until
            // then.
            if self.reading.is_none() {
                let mut files = self.files.hold().await?;
                self.rewind(&mut files, batch);
                return Ok(Pull::Idle(Duration::ZERO));
            }
            self.finish_read().await?;
        }
        // The code below contains no `await`, so a cancelled pull cannot lose the chunk.
        if let Some((info, mut filled)) = self.ready.pop_front() {
            self.partial
                .retain(|partial| *partial != info.stream && Some(*partial) != info.cut_off);
            self.partial.extend(info.is_partial.then_some(info.stream));
            if self.pulls.is_none() {
                batch.exchange(&mut filled);
            }
            self.spare.push(filled);
            // Read the next chunk while the flow processes this one, unless a chunk is being read or the result `last`
            // has not been returned yet.
            if self.reading.is_none()
                && self.last.is_none()
                && let Some(files) = self.files.try_hold()?
            {
                self.read_on(files);
            }
            return Ok(Pull::Events);
        }
        match self.last.take() {
            Some(Ok(Next::Finished)) => Ok(Pull::Finished),
            Some(Ok(Next::Working)) => Ok(Pull::Idle(Duration::from_millis(1).min(self.poll))),
            Some(Err(error)) => Err(error),
            _ => Ok(Pull::Idle(self.poll)),
        }
    }

    async fn close(&mut self) -> Result<()> {
        self.keeper = None;
        self.finish_read().await?;
        let mut files = self.files.hold().await?;
        self.host.blocking(move || files.close()).await?
    }
}

#[cfg(test)]
mod tests;
