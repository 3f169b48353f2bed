//! The acknowledged positions of files, and the task that writes these positions to the checkpoint.

mod keeper;

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, TryLockError},
    task::Waker,
};

use tremor_pdk::{
    Acks, Begin, Exception, Host, InFlight, Problem, Raw, RawBatch, Result, Task, Watermarks, lock,
    warn,
};

use super::{
    checkpoint::{Change, Checkpoint, Entry},
    clock::nanoseconds,
    identity::{Ending, Identity},
    pull::PullInfo,
};
use crate::Config;

/// Number of acknowledged bytes after which the checkpoint is written. The acknowledged bytes that
/// are not in the checkpoint are redelivered after a crash.
const UNWRITTEN: u64 = 1 << 20;

/// Length of a checkpoint in bytes above which its replacement is delayed until four times as many
/// bytes are acknowledged. A replacement writes the positions of all files, also of thousands.
const LONG_CHECKPOINT: u64 = UNWRITTEN / 4;

/// Maximum number of bytes of a pull, except for a single longer message. A pull is acknowledged when
/// all of its messages are, or when some have failed, so the delivered part of an unacknowledged pull
/// is redelivered after a crash.
pub(super) const PULL_BYTES: usize = 64 << 10;

/// Maximum number of bytes of a pull while acknowledgements are fast. The events of a pull often
/// become one delivery, so larger pulls mean fewer deliveries.
const FAST_PULL_BYTES: usize = 256 << 10;

/// Time from a pull to its acknowledgement below which acknowledgements count as fast, in ns.
const FAST_NS: u64 = 10_000_000;

/// Minimum number of bytes of a part of a pull while acknowledgements are fast. If messages have
/// failed, the parts before them count as acknowledged. While acknowledgements are slow, each message
/// is a part.
const FAST_PART_BYTES: usize = 4 << 10;

/// Maximum number of bytes in flight at which the next pull may be large.
const FAST_IN_FLIGHT: u64 = 1 << 20;

/// The acknowledged positions of all files of a source.
///
/// A task of the plugin writes the checkpoint, independently of pulls: while a sink is slow, the
/// source may not be pulled, but acknowledgements still arrive.
pub(super) struct Positions {
    shared: Arc<Shared>,
    most_in_flight: InFlight,
    /// Maximum number of bytes of a large pull; equal to [`PULL_BYTES`] if `read_ahead` is small.
    max_pull_bytes: usize,
    /// `true` if there was no checkpoint before.
    pub(super) is_new: bool,
}

struct Shared {
    host: Host,
    marks: Watermarks<u64>,
    interval_ns: u64,
    /// Number of acknowledged bytes after which the checkpoint is written.
    max_unwritten: u64,
    /// Number of acknowledged bytes after which a long checkpoint is replaced in any case.
    max_unreplaced: u64,
    /// The checkpoint; `None` after it was closed. Locked during a write, so lock the checkpoint
    /// only where the thread may block.
    checkpoint: Mutex<Option<Checkpoint>>,
    /// The problem that the checkpoint cannot be written.
    problem: Problem,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: Vec<Tracked>,
    /// Index in `files` of each stream.
    by_stream: HashMap<u64, usize>,
    /// Indices of the files whose identity is not in the checkpoint yet.
    identified: Vec<usize>,
    /// `true` if the checkpoint has to be replaced, because it may have other files.
    is_replaced: bool,
    /// Length of the checkpoint in bytes when it was replaced last.
    length: u64,
    /// Pulls in flight.
    pulls: HashMap<u64, Pulled>,
    /// Hashes of the bytes before positions of each stream, in the order of the positions, from the
    /// acknowledged position on.
    endings: HashMap<u64, Vec<Ending>>,
    /// Number of bytes that the pulls in flight have read.
    in_flight: u64,
    /// Time from the last acknowledged pull to its acknowledgement, in ns.
    acknowledged_in_ns: Option<u64>,
    /// Bytes acknowledged since the checkpoint was written.
    unwritten: u64,
    /// `true` if acknowledged positions may not be durable yet.
    is_unsynced: bool,
    /// Time from which the checkpoint is due and its next write has to be durable, by the monotonic
    /// clock.
    sync_at_ns: u64,
    /// `true` once the checkpoint is closed and nothing is written any more.
    is_closed: bool,
    /// Waker of the task that writes the checkpoint.
    waker: Option<Waker>,
}

/// A pull in flight.
struct Pulled {
    bytes: u64,
    /// Time of the pull, by the monotonic clock.
    since_ns: u64,
}

impl State {
    fn is_fast(&self) -> bool {
        self.acknowledged_in_ns.is_some_and(|time| time < FAST_NS)
    }

    /// Removes a pull that has ended.
    fn end(&mut self, pull: u64) -> Option<Pulled> {
        let ended = self.pulls.remove(&pull)?;
        self.in_flight -= ended.bytes;
        Some(ended)
    }
}

/// Content of a write of the checkpoint.
enum Content {
    All(Vec<Entry>),
    Changes(Vec<Change>),
}

/// A file that has an entry in the checkpoint.
pub(super) struct Tracked {
    /// Number of the stream of the file; `None` if the file is not being read.
    pub(super) stream: Option<u64>,
    /// Entry of the file, with the position at which the stream started.
    pub(super) entry: Entry,
}

impl Positions {
    /// Opens the checkpoint, and returns the positions and the entries of the checkpoint. Returns
    /// `None` if no checkpoint is configured.
    pub(super) fn open(
        config: &Config,
        pull_bytes: u64,
        host: &Host,
    ) -> Result<Option<(Self, Vec<Entry>)>> {
        let Some(path) = &config.checkpoint else { return Ok(None) };
        let (checkpoint, entries) = Checkpoint::open(path)?;
        let is_new = checkpoint.is_new;
        if let Some(error) = &checkpoint.damage {
            let copy = checkpoint.copy_path();
            warn!(host, "{error}; the older positions in `{}` are used instead", copy.display());
        }
        if checkpoint.torn > 0 {
            warn!(
                host,
                "the last {} bytes of the checkpoint `{}` are incomplete: the positions before them are used",
                checkpoint.torn,
                path.display()
            );
        }
        // `read_ahead` is divided: one half limits the bytes that wait for acknowledgements, and
        // the other half the bytes that are acknowledged and not yet in the checkpoint.
        let half = (config.read_ahead.get() / 2).max(1);
        let chunk_bytes = config.chunk_bytes.get() as u64;
        let most_bytes = half.saturating_mul(chunk_bytes);
        let max_pull_bytes =
            if most_bytes >= 4 * FAST_IN_FLIGHT { FAST_PULL_BYTES } else { PULL_BYTES };
        // Subtract the length of a pull, because a pull that starts just below the limit may exceed
        // the limit by almost this length.
        let last = pull_bytes.max(max_pull_bytes as u64).min(chunk_bytes);
        let bytes = most_bytes.saturating_sub(last - 1).max(1);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let most_in_flight = InFlight { bytes, key: "read_ahead", ..InFlight::UNLIMITED };
        let shared = Shared {
            host: host.clone(),
            marks: Watermarks::new(),
            interval_ns: nanoseconds(config.checkpoint_interval.get()),
            max_unwritten: most_bytes.min(UNWRITTEN),
            max_unreplaced: most_bytes,
            checkpoint: Mutex::new(Some(checkpoint)),
            problem: host.problem("checkpoint"),
            state: Mutex::default(),
        };
        let shared = Arc::new(shared);
        Ok(Some((Self { shared, most_in_flight, max_pull_bytes, is_new }, entries)))
    }

    /// Returns the maximum number of bytes of the next pulls. Pulls are small while
    /// acknowledgements are slow or many bytes are in flight.
    pub(super) fn pull_bytes(&self) -> usize {
        let state = self.shared.state();
        let is_large = state.is_fast() && state.in_flight <= FAST_IN_FLIGHT;
        if is_large { self.max_pull_bytes } else { PULL_BYTES }
    }

    /// Returns the minimum number of bytes of the parts of the next pulls.
    pub(super) fn part_bytes(&self) -> usize {
        if self.shared.state().is_fast() { FAST_PART_BYTES } else { 1 }
    }

    /// Returns the receiver of acknowledgements.
    pub(super) fn acks(&self) -> Box<dyn Acks> {
        Box::new(PositionAcks { shared: self.shared.clone(), most_in_flight: self.most_in_flight })
    }

    /// Starts the task that writes the checkpoint. The task ends when its handle is dropped.
    pub(super) fn start(&self) -> Task {
        self.shared.host.spawn("checkpoint", keeper::keep(self.shared.clone()))
    }

    /// Returns the handle with which the source starts pulls.
    pub(super) fn pulls(&self) -> Pulls {
        Pulls(self.shared.clone())
    }

    /// Replaces the files in the checkpoint.
    pub(super) fn replace(&self, files: Vec<Tracked>) {
        let streams = files.iter().enumerate().filter_map(|(at, file)| Some((file.stream?, at)));
        let by_stream = streams.collect();
        let mut state = self.shared.state();
        (state.files, state.by_stream, state.is_replaced) = (files, by_stream, true);
        state.identified.clear();
    }

    /// Replaces the identity of the file of a stream.
    pub(super) fn set_identity(&self, stream: u64, identity: &Identity) {
        let State { files, by_stream, identified, .. } = &mut *self.shared.state();
        let Some(at) = by_stream.get(&stream) else { return };
        if let Some(file) = files.get_mut(*at) {
            file.entry.identity = identity.clone();
            identified.push(*at);
        }
    }

    /// Returns whether all events of a stream are acknowledged.
    pub(super) fn is_settled(&self, stream: u64) -> bool {
        self.shared.marks.is_settled(stream)
    }

    /// Returns `entry` with the acknowledged position of its stream.
    pub(super) fn entry(&self, stream: u64, entry: Entry) -> Entry {
        self.shared.entry(&self.shared.state(), &Tracked { stream: Some(stream), entry })
    }

    /// Removes a stream that is not in the checkpoint any more.
    pub(super) fn forget(&self, stream: u64) {
        self.shared.marks.forget(stream);
        self.shared.state().endings.remove(&stream);
    }

    /// Returns whether the checkpoint has to be written before more data is read.
    pub(super) fn is_due(&self) -> bool {
        let state = self.shared.state();
        self.shared.is_due(&state, self.shared.host.monotonic_ns())
    }

    /// Makes the checkpoint due immediately.
    pub(super) fn save_soon(&self) {
        self.shared.state().sync_at_ns = 0;
    }

    /// Writes the checkpoint, and makes it durable if `checkpoint_interval` is over. May block.
    pub(super) fn save(&self) -> Result<()> {
        self.shared.save()
    }

    /// Makes the checkpoint durable and unlocks it. May block.
    pub(super) fn close(&self) -> Result<()> {
        self.save_soon();
        let saved = self.save();
        self.shared.state().is_closed = true;
        *lock(&self.shared.checkpoint) = None;
        saved
    }
}

impl Drop for Positions {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        // A write in progress unlocks the checkpoint when it ends.
        match self.shared.checkpoint.try_lock() {
            Ok(mut checkpoint) => *checkpoint = None,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = None,
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Handle with which the source registers its pulls. No method blocks.
#[derive(Clone)]
pub(super) struct Pulls(Arc<Shared>);

impl Pulls {
    /// Starts a pull that fills `batch`; see [`Watermarks::begin`].
    pub(super) fn begin<'b>(&'b self, batch: &'b mut RawBatch) -> Begin<'b, u64, Raw> {
        self.0.marks.begin(batch)
    }

    /// Registers a pull.
    pub(super) fn register(&self, pull: u64, info: &PullInfo) {
        let since_ns = self.0.host.monotonic_ns();
        let mut state = self.0.state();
        let PullInfo { stream, length, .. } = *info;
        let state = &mut *state;
        let file = state.by_stream.get(&stream).and_then(|at| state.files.get_mut(*at));
        if let Some(Tracked { entry, .. }) = file {
            entry.unread = length.saturating_sub(entry.position);
        }
        for ending in &info.endings {
            let endings = state.endings.entry(stream).or_default();
            // A stream may have been rewound.
            while endings.pop_if(|last| last.position >= ending.position).is_some() {}
            if endings.len() == endings.capacity() {
                let acknowledged = self.0.marks.of(stream).unwrap_or_default();
                endings.retain(|ending| ending.position >= acknowledged);
            }
            endings.push(*ending);
        }
        let bytes = info.bytes as u64;
        state.pulls.insert(pull, Pulled { bytes, since_ns });
        state.in_flight += bytes;
    }
}

/// Receives acknowledgements from the runtime.
struct PositionAcks {
    shared: Arc<Shared>,
    most_in_flight: InFlight,
}

impl Acks for PositionAcks {
    fn most_in_flight(&self) -> InFlight {
        self.most_in_flight
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.shared.marks.clone().ack(pull)?;
        self.shared.acknowledged(pull);
        Ok(())
    }

    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        self.shared.marks.clone().undecodable(pull, messages)
    }

    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()> {
        self.shared.state().end(pull);
        self.shared.marks.clone().fail(pull, events)?;
        // The events before the failed ones may be acknowledged now.
        let waker = {
            let mut state = self.shared.state();
            state.is_unsynced = true;
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Counts an acknowledged pull, and wakes the task that writes the checkpoint if a write
    /// becomes due or its time has to be awaited.
    fn acknowledged(&self, pull: u64) {
        let waker = {
            let mut state = self.state();
            let ended = state.end(pull);
            let was_due = self.has_enough(&state);
            if let Some(Pulled { bytes, since_ns }) = ended {
                state.unwritten += bytes;
                state.acknowledged_in_ns = Some(self.host.monotonic_ns().saturating_sub(since_ns));
            }
            let is_first = !std::mem::replace(&mut state.is_unsynced, true);
            let is_due = self.has_enough(&state) && !was_due;
            if is_first || is_due { state.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the checkpoint is due because of the number of acknowledged bytes.
    fn has_enough(&self, state: &State) -> bool {
        let is_long = state.is_replaced && state.length > LONG_CHECKPOINT;
        let least = if is_long { state.length.saturating_mul(4) } else { 0 };
        state.unwritten >= self.max_unwritten.max(least.min(self.max_unreplaced))
    }

    fn is_due(&self, state: &State, now_ns: u64) -> bool {
        self.has_enough(state) || now_ns >= state.sync_at_ns
    }

    fn save(&self) -> Result<()> {
        let mut checkpoint = lock(&self.checkpoint);
        let Some(checkpoint) = &mut *checkpoint else { return Ok(()) };
        let now_ns = self.host.monotonic_ns();
        let (content, is_durable) = {
            let mut state = self.state();
            let is_durable = now_ns >= state.sync_at_ns;
            state.unwritten = 0;
            state.is_unsynced &= !is_durable;
            if is_durable {
                // Set the time before the write. A file that is added during the write sets the
                // time to 0, and makes the checkpoint due again.
                state.sync_at_ns = now_ns.saturating_add(self.interval_ns);
            }
            (self.content(&mut state), is_durable)
        };
        let saved = match content {
            Content::All(entries) => {
                let saved = checkpoint.save(entries, is_durable);
                self.state().length = checkpoint.length();
                saved
            }
            Content::Changes(changes) => checkpoint.save_changes(changes, is_durable),
        };
        self.problem.update(&saved);
        if saved.is_err() {
            let mut state = self.state();
            (state.is_unsynced, state.is_replaced) = (true, true);
            if is_durable {
                state.sync_at_ns = 0;
            }
        }
        saved
    }

    /// Returns the content of the next write of the checkpoint, which is expected to succeed.
    fn content(&self, state: &mut State) -> Content {
        let acknowledged = self.marks.take().acknowledged;
        let mut changed = std::mem::take(&mut state.identified);
        if std::mem::take(&mut state.is_replaced) {
            return Content::All(state.files.iter().map(|file| self.entry(state, file)).collect());
        }
        let streams = acknowledged.iter();
        changed.extend(streams.filter_map(|(stream, _)| state.by_stream.get(stream)));
        changed.sort_unstable();
        changed.dedup();
        let entry = |at: usize| Some((at, self.entry(state, state.files.get(at)?)));
        Content::Changes(changed.into_iter().filter_map(entry).collect())
    }

    /// Returns the entry of a file with its acknowledged position.
    fn entry(&self, state: &State, Tracked { stream, entry }: &Tracked) -> Entry {
        let mark = stream.and_then(|stream| Some((stream, self.marks.of(stream)?)));
        let Some((stream, position)) = mark else { return entry.clone() };
        let endings = state.endings.get(&stream);
        let ending = endings.and_then(|endings| {
            let at = endings.binary_search_by_key(&position, |ending| ending.position).ok()?;
            endings.get(at).copied()
        });
        // The hash of a compressed file is that of the bytes before `skip`.
        let is_skip = entry.skip > 0 || entry.position == position;
        let ending = if is_skip { entry.ending } else { ending };
        let length = entry.position.saturating_add(entry.unread);
        let unread = length.saturating_sub(position);
        Entry { position, unread, ending, ..entry.clone() }
    }
}
