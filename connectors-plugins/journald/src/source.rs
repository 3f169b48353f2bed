//! The source: the entries of the journal.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use tremor_pdk::{
    Acks, Begin, Blocking, Counter, Limit, LimitedLog, Rewind, lock, prelude::*, warn, yield_now,
};

use crate::{
    Config,
    entries::{Entries, cursor},
    gaps::SequenceNumbers,
    point::{Point, Position},
    positions::{Kept, Positions, STREAM},
    process::{Process, cursor_of},
};

/// Origin of the events.
const ORIGIN: &str = "journald";

/// Number of reads in a row before the source yields to other tasks.
const TURNS: usize = 16;

/// Period in which at most one line of the same kind is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

type Starting = Pin<Box<dyn Future<Output = Result<Process>> + Send>>;

/// State of the process that the source reads.
enum Stage {
    Starting(Starting),
    Reading(Process),
    /// The output has ended. Waits for the process.
    Ending(Blocking<Option<Error>>),
    Ended(Option<Error>),
}

/// Reads entries from `journalctl`. Each entry is a message.
pub struct JournalSource {
    config: Arc<Config>,
    host: Host,
    stage: Stage,
    entries: Entries,
    /// Position after the last entry that was returned.
    position: Position,
    /// Position at which the connection started.
    start: Position,
    /// Cursor of the entry before the first new entry. `journalctl` may return the earlier entry again.
    known: Option<Arc<str>>,
    /// Copy of `position` for the connector. Without a checkpoint, the next connection continues
    /// from this position.
    resume: Arc<Mutex<Position>>,
    /// Acknowledged positions; `None` without a checkpoint.
    kept: Option<Kept>,
    truncated: Counter,
    log: LimitedLog,
    /// Sequence numbers of the entries that were read; `None` if not all entries of the journal are read.
    numbers: Option<SequenceNumbers>,
    missing: Counter,
    missing_log: LimitedLog,
}

/// Events for which a pull waits.
enum Ready {
    Output(io::Result<usize>),
    /// A pull has failed.
    Failed,
}

impl JournalSource {
    pub(crate) fn new(
        config: Arc<Config>,
        host: Host,
        process: Process,
        start: Position,
        resume: Arc<Mutex<Position>>,
        positions: Option<&Positions>,
    ) -> Self {
        let max_entry = config.max_entry_bytes.in_memory();
        let truncated = host.counter(
            "entries_truncated",
            "Entries of the journal that were longer than `max_entry_bytes`.",
        );
        let mut numbers = config.has_no_filter().then(SequenceNumbers::default);
        if let (Some(numbers), Some(known)) = (&mut numbers, cursor_of(&start)) {
            numbers.add(Some(&known));
        }
        let missing = host.counter(
            "entries_missing",
            "Entries that were not in the journal any more, so that they were not read.",
        );
        Self {
            numbers,
            missing,
            missing_log: host.limited_log(1, LOGGED_EVERY),
            config,
            stage: Stage::Reading(process),
            entries: Entries::new(max_entry, host.memory()),
            position: start.clone(),
            known: cursor_of(&start),
            start,
            resume,
            kept: positions.map(Positions::keep),
            truncated,
            log: host.limited_log(1, LOGGED_EVERY),
            host,
        }
    }

    /// Reads until an entry is complete. Returns early if a pull has failed or the process has ended.
    async fn fill(&mut self) -> Result<()> {
        for turn in 1_usize.. {
            if turn % TURNS == 0 {
                yield_now().await;
            }
            match &mut self.stage {
                Stage::Starting(starting) => {
                    let process = starting.await;
                    self.stage = match process {
                        Ok(process) => Stage::Reading(process),
                        Err(error) => Stage::Ended(Some(error)),
                    };
                }
                Stage::Ending(ending) => self.stage = Stage::Ended(ending.await?),
                Stage::Ended(_) => return Ok(()),
                Stage::Reading(process) => {
                    if process.is_restricted() {
                        self.numbers = None;
                    }
                    if self.entries.first().is_some() {
                        if skip_known(&mut self.entries, &mut self.known) {
                            continue;
                        }
                        return Ok(());
                    }
                    let (kept, entries) = (&self.kept, &mut self.entries);
                    let ready = poll_fn(|context| {
                        if kept.as_ref().is_some_and(|kept| kept.poll_failed(context).is_ready()) {
                            return Poll::Ready(Ready::Failed);
                        }
                        process.poll_read(context, entries).map(Ready::Output)
                    });
                    match ready.await {
                        Ready::Failed => return Ok(()),
                        Ready::Output(Ok(1..)) => {}
                        Ready::Output(result) => {
                            if let Err(error) = result {
                                warn!(self.host, "cannot read the output of journalctl: {error}");
                            }
                            let ended = Stage::Ended(None);
                            let Stage::Reading(process) = std::mem::replace(&mut self.stage, ended)
                            else {
                                return Ok(());
                            };
                            self.stage = Stage::Ending(self.host.blocking(process.end()));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Restarts `journalctl` at the position of a failed pull.
    fn rewind(&mut self, streams: &[Rewind<Position>]) {
        let Some(Rewind { from, .. }) = streams.first() else { return };
        self.position = from.clone().unwrap_or_else(|| self.start.clone());
        self.known = cursor_of(&self.position);
        self.entries.clear();
        let start = Process::start(self.config.clone(), self.host.clone(), self.position.clone());
        // Dropping the previous process kills it.
        self.stage = Stage::Starting(Box::pin(start));
    }
}

/// Removes the first entry if its cursor is `known`. Returns whether the entry was removed.
fn skip_known(entries: &mut Entries, known: &mut Option<Arc<str>>) -> bool {
    let Some(known) = known.take() else { return false };
    let is_known = entries.first().and_then(cursor) == Some(&*known);
    if is_known {
        entries.remove_first();
    }
    is_known
}

/// Calls `push` with each buffered entry and the position after it, within `limit`. Returns the number of entries that
/// are missing in the journal before them.
fn add(
    entries: &mut Entries,
    limit: Limit,
    position: &mut Position,
    numbers: &mut Option<SequenceNumbers>,
    mut push: impl FnMut(&[u8], &Position),
) -> u64 {
    let (mut count, mut bytes, mut missing) = (0, 0, 0);
    while count < limit.events && bytes < limit.bytes {
        let Some(entry) = entries.first() else { break };
        let cursor = cursor(entry);
        missing += numbers.as_mut().map_or(0, |numbers| numbers.add(cursor));
        // An entry without a cursor is read again together with the entries before it.
        if let Some(cursor) = cursor {
            position.point = Point::Cursor(cursor.into());
        }
        position.read += entry.len() as u64;
        push(entry, position);
        bytes += entry.len();
        count += 1;
        entries.remove_first();
    }
    missing
}

impl Source for JournalSource {
    type Batch = RawBatch;
    const DEFAULT_CODEC: Option<&str> = Some("json");

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.kept.as_ref().map(Kept::acks)
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        self.fill().await?;
        // The code below contains no `await`, so a cancelled pull cannot lose entries.
        let limit = batch.limit();
        let has_entry = self.entries.first().is_some();
        let marks = self.kept.as_ref().map(|kept| kept.marks.clone());
        let mut missing = 0;
        if let Some(marks) = &marks {
            match marks.begin(batch) {
                Begin::Rewind(streams) => {
                    self.rewind(&streams);
                    return Ok(Pull::Idle(Duration::ZERO));
                }
                Begin::Write(mut writer) if has_entry => {
                    let push = |entry: &[u8], position: &Position| {
                        writer.push_message(STREAM, position.clone(), entry);
                    };
                    let (position, numbers) = (&mut self.position, &mut self.numbers);
                    missing = add(&mut self.entries, limit, position, numbers, push);
                }
                Begin::Write(_) => {}
            }
        } else if has_entry {
            let push = |entry: &[u8], _: &Position| batch.stream(STREAM).push_message(entry);
            let (position, numbers) = (&mut self.position, &mut self.numbers);
            missing = add(&mut self.entries, limit, position, numbers, push);
            *lock(&self.resume) = self.position.clone();
        }
        if missing > 0 {
            self.missing.add(missing);
            warn!(
                self.missing_log,
                "{missing} entries are missing in the journal: journald probably deleted them before they were read; \
                 raise `SystemMaxUse` in `journald.conf` if the flow has to wait for long"
            );
        }
        if has_entry {
            batch.set_origin(ORIGIN);
            let truncated = self.entries.take_truncated();
            if truncated > 0 {
                self.truncated.add(truncated);
                warn!(
                    self.log,
                    "an entry is longer than `max_entry_bytes`, {} bytes, so its remainder is discarded",
                    self.config.max_entry_bytes.get()
                );
            }
            return Ok(Pull::Events);
        }
        match &self.stage {
            Stage::Ended(None) => Ok(Pull::Finished),
            Stage::Ended(Some(error)) => Err(error.clone()),
            // The entries of a failed pull were read again during this pull.
            _ => Ok(Pull::Idle(Duration::ZERO)),
        }
    }

    async fn close(&mut self) -> Result<()> {
        if let Stage::Reading(process) = std::mem::replace(&mut self.stage, Stage::Ended(None)) {
            self.host.blocking(move || process.kill()).await?;
        }
        match &mut self.kept {
            Some(kept) => kept.close().await,
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for JournalSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalSource").field("position", &self.position).finish_non_exhaustive()
    }
}
