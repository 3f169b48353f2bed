//! An open log: its thread, and the halves that append and settle.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::commit::{Committer, Progress};
use crate::disk::{Disk, DiskFile, SystemDisk};
use crate::error::{DeviceError, NotDurable, OpenError, Reason, Refused, at};
use crate::find::MAX_OWNER;
use crate::limits::{Limits, STAGING};
use crate::open::{Opening, open};
use crate::reader::Reader;
use crate::record::is_record;
use crate::report::Opened;
use crate::state::{Shared, Waiting};

/// Time for which changed positions wait while nothing else is to do, so that they are not written for each record.
const REST: Duration = Duration::from_millis(50);

/// Time without a record after which a part of the next segment is filled, so that a sequential caller, who appends a
/// record when the previous one is durable, never waits for it.
const QUIET: Duration = Duration::from_millis(2);

/// Parts of the next segment that are filled before changed positions are written. Together with [`QUIET`], this is
/// about [`REST`].
const FILLS_PER_POSITIONS: u32 = 16;

/// Time after which a commit is repeated whose disk has failed. It doubles with each failure.
const BACKOFF: Duration = Duration::from_millis(10);

/// Maximum time after which a commit is repeated.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Number of attempts to write which records are settled when the log is closed. With the time between them, which is
/// that of a commit, they take a third of a second.
const LAST_ATTEMPTS: u32 = 6;

/// Settings of a log.
#[derive(Clone)]
pub struct Options {
    /// Maximum bytes of all files of the log.
    pub max_bytes: u64,
    /// Bytes of a segment, a multiple of 4096. A record has at most half of them. Unless set, the smaller of 64 MiB and
    /// an eighth of `max_bytes`.
    pub segment_bytes: Option<u64>,
    /// Name of the owner, at most 1024 bytes. A log that was created for another owner is not opened.
    pub owner: String,
    /// The file system.
    pub disk: Arc<dyn Disk>,
}

impl Options {
    /// Returns the settings of a log with at most `max_bytes` bytes on the file system of the operating system.
    pub fn new(max_bytes: u64) -> Self {
        Self { max_bytes, segment_bytes: None, owner: String::new(), disk: Arc::new(SystemDisk) }
    }
}

/// Condition of an open log.
#[derive(Clone, Debug)]
pub struct Status {
    /// The number up to which all records are settled.
    pub settled: u64,
    /// Number of the last record that is durable.
    pub durable: u64,
    /// Bytes of records that are not durable yet.
    pub staged_bytes: u64,
    /// Bytes of segments with records that are not settled.
    pub live_bytes: u64,
    /// `true` while records wait for space.
    pub is_full: bool,
    /// Number of damaged parts that readers have skipped.
    pub damaged_parts: u64,
    /// The last error of the disk, until a commit or the preparation of a segment succeeds.
    pub failure: Option<String>,
}

/// Result of closing a log.
#[derive(Clone, Debug, Default)]
pub struct Closed {
    /// Upper bound of the number of settled records that the next run may return again, because the disk failed while
    /// the log was closed, or because there are too many ranges of settled records. Usually 0.
    pub may_return: u64,
    /// The error of the disk, if it failed.
    pub failure: Option<String>,
}

/// An open log. Dropping it is the same as [`Log::close`].
pub struct Log {
    shared: Arc<Shared>,
    dir: PathBuf,
    max_record: u64,
    max_ranges: usize,
    /// `None` once the log is closed.
    thread: Mutex<Option<JoinHandle<Closed>>>,
}

/// Appends records. All clones belong to the same log.
#[derive(Clone)]
pub struct Appender {
    shared: Arc<Shared>,
    max_record: u64,
}

impl Log {
    /// Opens the log in the folder `dir`, which is created if it is missing, and starts its commit thread.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<(Self, Opened), OpenError> {
        let dir = dir.as_ref();
        let dir = std::path::absolute(dir).map_err(at("open", dir))?;
        if options.owner.len() > MAX_OWNER {
            let (name, value) = ("length of the owner", options.owner.len() as u64);
            return Err(OpenError::Invalid {
                name,
                value,
                expected: format!("at most {MAX_OWNER}"),
            });
        }
        let limits = Limits::new(options.max_bytes, options.segment_bytes)?;
        let Opening { committer, shared, opened, lock, max_ranges } =
            open(options.disk, &dir, &options.owner, limits)?;
        let driven = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".to_owned());
        let thread = thread.spawn(move || drive(committer, &driven, lock));
        let thread = Mutex::new(Some(thread.map_err(at("start the thread of", &dir))?));
        let max_record = limits.segment_bytes / 2;
        Ok((Self { shared, dir, max_record, max_ranges, thread }, opened))
    }

    /// Returns an appender.
    pub fn appender(&self) -> Appender {
        Appender { shared: Arc::clone(&self.shared), max_record: self.max_record }
    }

    /// Returns a reader that begins with the first record that is not settled.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared), self.dir.clone(), self.max_ranges)
    }

    /// Returns the maximum bytes of a record: half a segment.
    pub fn max_record(&self) -> u64 {
        self.max_record
    }

    /// Returns whether readers return no record because of the number of ranges of settled records.
    pub fn is_at_limit_of_ranges(&self) -> bool {
        self.shared.lock().settled.ranges().len() >= self.max_ranges
    }

    /// Returns whether a record is settled.
    pub fn is_settled(&self, number: u64) -> bool {
        self.shared.lock().settled.contains(number)
    }

    /// Settles a record: it is not read again, and its space is reused. Until this is durable, which takes a moment, a
    /// crash makes the record appear again.
    pub fn settle(&self, number: u64) {
        let mut state = self.shared.lock();
        state.settled.insert(number, number);
        let was_changed = std::mem::replace(&mut state.is_settled_changed, true);
        // The next attempt finds out whether there is a segment now.
        state.is_full = false;
        let was_woken = std::mem::replace(&mut state.is_woken, true);
        drop(state);
        // The commit thread waits for the first change only, so that not each settled record wakes it.
        if !was_changed || !was_woken {
            self.shared.work.notify_all();
        }
    }

    /// Refuses the records that wait, with [`NotDurable::Full`], unless the next attempt finds a segment for them. Call
    /// this when the log is full and the records that wait are not needed.
    pub fn refuse_waiting(&self) {
        let mut state = self.shared.lock();
        if state.staged_bytes == 0 {
            return;
        }
        state.refuses_waiting = true;
        state.is_woken = true;
        self.shared.work.notify_all();
    }

    /// Allows segments beyond `max_bytes` from now on, so that what was accepted becomes durable.
    pub fn lift_limit(&self) {
        let mut state = self.shared.lock();
        state.is_limit_lifted = true;
        state.is_full = false;
        state.is_woken = true;
        self.shared.work.notify_all();
    }

    /// Returns the condition of the log.
    pub fn status(&self) -> Status {
        let state = self.shared.lock();
        Status {
            settled: state.settled.position(),
            durable: state.live.values().next_back().map_or(0, |it| it.last),
            staged_bytes: state.staged_bytes,
            live_bytes: state.live.values().map(|it| it.size).sum(),
            is_full: state.is_full,
            damaged_parts: state.damaged_parts,
            failure: state.failure.clone(),
        }
    }

    /// Makes durable what waits, writes which records are settled, and closes the log. Records that cannot be made
    /// durable, because the log is full or the disk fails, get [`NotDurable`]. Appenders and readers may exist longer
    /// than the log is open.
    ///
    /// If the log is closed already, or if a callback of the log calls this, returns the default.
    pub fn close(&self) -> Closed {
        let notify: Vec<_> = {
            let mut state = self.shared.lock();
            state.is_closed = true;
            state.is_woken = true;
            let state = &mut *state;
            state.on_record.drain(..).chain(state.on_capacity.drain(..)).collect()
        };
        self.shared.work.notify_all();
        notify.into_iter().for_each(|it| it());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A callback that drops the last reference to the log runs on this thread, which cannot wait for itself.
        let thread = thread.filter(|it| it.thread().id() != thread::current().id());
        // A panic of a callback has ended the thread and was reported by the panic hook.
        thread.and_then(|it| it.join().ok()).unwrap_or_default()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.close();
    }
}

impl Appender {
    /// Appends a record and returns at once. `done` is called with the number of the record when the record is durable,
    /// or with [`NotDurable`] if the log is closed or gives the record up before. It is called by the commit thread, so it must neither block
    /// nor panic.
    ///
    /// The record is a frame: it begins with a header of [`HEADER_LEN`](crate::HEADER_LEN) bytes, such as
    /// [`record`](crate::record()) makes, whose length is that of the record. The log writes its number, epoch and
    /// checksum.
    ///
    /// # Errors
    ///
    /// [`Refused`] contains the record. Nothing was appended, and `done` is not called.
    pub fn append(
        &self,
        record: Vec<u8>,
        done: impl FnOnce(Result<u64, NotDurable>) + Send + 'static,
    ) -> Result<(), Refused> {
        let len = record.len() as u64;
        if !is_record(&record) {
            return Err(Refused { reason: Reason::NotARecord(len), record });
        }
        if len > self.max_record {
            return Err(Refused { reason: Reason::TooLarge { len, max: self.max_record }, record });
        }
        let mut state = self.shared.lock();
        let is_busy = state.staged_bytes > 0 && state.staged_bytes + len > STAGING;
        let reason = match () {
            () if state.is_closed => Some(Reason::Closed),
            () if state.is_full => Some(Reason::Full),
            () if is_busy => Some(Reason::Busy),
            () => None,
        };
        if let Some(reason) = reason {
            return Err(Refused { reason, record });
        }
        let number = state.next;
        state.next += 1;
        state.staged_bytes += len;
        let is_first = state.waiting.is_empty();
        state.waiting.push_back(Waiting { record, number, done: Box::new(done) });
        drop(state);
        if is_first {
            self.shared.work.notify_all();
        }
        Ok(())
    }

    /// Appends a record and blocks the thread until the record is durable. Returns the number of the record.
    ///
    /// Waits as well while earlier records wait for the disk.
    ///
    /// # Errors
    ///
    /// The reason why the record was not appended. [`Reason::Closed`] is also returned if the log was closed before the
    /// record was durable.
    pub fn append_and_wait(&self, mut record: Vec<u8>) -> Result<u64, Reason> {
        loop {
            let (sender, receiver) = mpsc::sync_channel(1);
            let capacity = sender.clone();
            let appended = self.append(record, move |result| {
                let _ = sender.try_send(Some(result));
            });
            match appended {
                Ok(()) => {
                    drop(capacity);
                    let result = receiver.recv().ok().flatten();
                    return result.and_then(Result::ok).ok_or(Reason::Closed);
                }
                Err(refused) if refused.reason == Reason::Busy => record = refused.record,
                Err(refused) => return Err(refused.reason),
            }
            self.notify(move || {
                let _ = capacity.try_send(None);
            });
            let _ = receiver.recv();
        }
    }

    /// Calls `notify` once when records have become durable, when the log was found full, when the log is closed, or at
    /// once if no record waits.
    pub fn notify(&self, notify: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.is_closed || state.staged_bytes == 0 {
            drop(state);
            return notify();
        }
        state.on_capacity.push(Box::new(notify));
    }
}

/// Commits until the log is closed, and closes it.
fn drive(mut committer: Committer, shared: &Shared, lock: Arc<dyn DiskFile>) -> Closed {
    let mut backoff = BACKOFF;
    let mut fills = 0;
    loop {
        if committer.fills_when_idle() && is_quiet(shared) {
            fills += 1;
            if fills >= FILLS_PER_POSITIONS {
                fills = 0;
                // The step reports the error if the disk still fails.
                let _: Progress = committer.rest();
            }
        }
        // Set again by what happens during the step, so that nothing is missed.
        shared.lock().is_woken = false;
        let progress = committer.step();
        if progress == Progress::Full {
            // Settled records are written at once, because they may free a segment.
            let _: Progress = committer.rest();
            let refused = committer.take_refused();
            if !refused.is_empty() {
                // Until records are settled, or for a while, the log stays full, so that not each record that follows
                // is tried.
                shared.lock().is_woken = false;
            }
            for waiting in refused {
                (waiting.done)(Err(NotDurable::Full));
            }
        }
        let state = shared.lock();
        let is_closed = state.is_closed;
        match progress {
            Progress::Worked => backoff = BACKOFF,
            Progress::Idle if !state.waiting.is_empty() => {}
            Progress::Idle | Progress::Full | Progress::Failed if is_closed => break,
            Progress::Idle if state.is_settled_changed => {
                let rested = shared
                    .work
                    .wait_timeout_while(state, REST, |it| it.waiting.is_empty() && !it.is_closed);
                let (state, rested) = rested.unwrap_or_else(PoisonError::into_inner);
                drop(state);
                if rested.timed_out() && committer.rest() == Progress::Failed {
                    pause(shared, backoff);
                    backoff = MAX_BACKOFF.min(backoff * 2);
                }
            }
            Progress::Idle => {
                let is_idle = |it: &mut crate::state::State| {
                    it.waiting.is_empty() && !it.is_closed && !it.is_settled_changed
                };
                drop(shared.work.wait_while(state, is_idle));
            }
            Progress::Full => {
                let waited = shared.work.wait_timeout_while(state, MAX_BACKOFF, |it| !it.is_woken);
                drop(waited);
            }
            Progress::Failed => {
                drop(state);
                pause(shared, backoff);
                backoff = MAX_BACKOFF.min(backoff * 2);
            }
        }
    }
    let closed = close(&mut committer, shared);
    for waiting in committer.take_lost() {
        (waiting.done)(Err(NotDurable::Closed));
    }
    drop(lock);
    closed
}

/// Writes which records are settled, and repeats it for a while if the disk fails.
fn close(committer: &mut Committer, shared: &Shared) -> Closed {
    let mut written = committer.write_last_positions();
    let mut backoff = BACKOFF;
    for _ in 1..LAST_ATTEMPTS {
        if written.is_ok() {
            break;
        }
        // This wait ends only with its time.
        drop(shared.work.wait_timeout_while(shared.lock(), backoff, |_| true));
        backoff *= 2;
        written = committer.write_last_positions();
    }
    let failure = written.err().map(|it| it.to_string());
    Closed { may_return: committer.may_return(), failure }
}

/// Waits for a record. Returns whether there was none for a while.
fn is_quiet(shared: &Shared) -> bool {
    let state = shared.lock();
    let waits = |it: &mut crate::state::State| it.waiting.is_empty() && !it.is_closed;
    let waited = shared.work.wait_timeout_while(state, QUIET, waits);
    let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
    drop(state);
    waited.timed_out()
}

/// Waits, but not longer than until the log is closed.
fn pause(shared: &Shared, time: Duration) {
    let state = shared.lock();
    drop(shared.work.wait_timeout_while(state, time, |it| !it.is_closed));
}

impl From<DeviceError> for std::io::Error {
    fn from(error: DeviceError) -> Self {
        Self::new(error.source.kind(), error.to_string())
    }
}
