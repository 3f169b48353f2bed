//! Up to where files are acknowledged, and the checkpoint that keeps these positions.

use std::{
    collections::HashMap,
    future::poll_fn,
    ops::Range,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    task::{Poll, Waker},
    time::Duration,
};

use tremor_pdk::{
    Acks, Begin, Exception, Host, InFlight, Raw, RawBatch, Result, Task, Watermarks, warn,
};

use super::{
    checkpoint::{Checkpoint, Entry},
    clock::nanoseconds,
};
use crate::Config;

/// Maximum number of acknowledged bytes that the checkpoint does not have: they come twice after a crash.
const UNWRITTEN: u64 = 1 << 20;

/// Length of a checkpoint of many files, in bytes. All positions are written together, so a longer one is written after
/// as many acknowledged bytes as four times its length.
const LONG_CHECKPOINT: u64 = UNWRITTEN / 4;

/// Number of bytes that a pull brings, at most, unless a single message has more. A pull is acknowledged as a whole: what
/// was delivered of it comes twice after a crash.
pub(super) const PULL_BYTES: usize = 64 << 10;

/// Number of bytes that a pull reads while acknowledgements come fast. A sink often makes a delivery of a pull, so that larger pulls cost less time.
const FAST_PULL_BYTES: usize = 256 << 10;

/// Maximum time from a pull to its acknowledgement for which acknowledgements come fast, in ns.
const FAST_NS: u64 = 10_000_000;

/// Maximum number of bytes in flight with which pulls are large. `read_ahead` counts pulls of the usual size.
const FAST_IN_FLIGHT: u64 = 1 << 20;

/// The positions of all files of a source.
///
/// The runtime reports acknowledgements whether or not the source is pulled, and a task of the plugin writes the
/// checkpoint: a full queue prevents pulls for as long as a sink takes.
pub(super) struct Kept {
    shared: Arc<Shared>,
    most_in_flight: InFlight,
    /// Number of bytes of a large pull; that of the others if `read_ahead` is small.
    most_pull_bytes: usize,
}

struct Shared {
    host: Host,
    marks: Watermarks<u64>,
    interval_ns: u64,
    /// Maximum number of acknowledged bytes between two writes.
    most_unwritten: u64,
    /// `None` after the end. Locked while it is written, so only where a thread may block.
    checkpoint: Mutex<Option<Checkpoint>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: Vec<Tracked>,
    /// Pulls in flight.
    pulls: HashMap<u64, Pulled>,
    /// Number of bytes that the pulls in flight have read.
    in_flight: u64,
    /// Time from the last pull that was acknowledged to its acknowledgement, in ns.
    answered_in_ns: Option<u64>,
    /// Bytes that were acknowledged since the checkpoint was written.
    unwritten: u64,
    /// `true` if something was acknowledged that the disk may not have.
    is_unsynced: bool,
    /// Time from which the checkpoint is to be made durable, by the monotonic clock.
    sync_at_ns: u64,
    /// Length of the checkpoint when it was written last, in bytes.
    length: u64,
    /// `true` after the end, when nothing is written any more.
    is_closed: bool,
    /// Waker of the task that writes the checkpoint.
    waker: Option<Waker>,
}

/// A pull that has not ended.
struct Pulled {
    bytes: u64,
    /// Time of the pull, by the monotonic clock.
    since_ns: u64,
}

impl State {
    /// Removes a pull that has ended.
    fn end(&mut self, pull: u64) -> Option<Pulled> {
        let ended = self.pulls.remove(&pull)?;
        self.in_flight -= ended.bytes;
        Some(ended)
    }
}

/// A file that has an entry in the checkpoint.
pub(super) struct Tracked {
    /// The stream that the file is read as; `None` if it is read to its end.
    pub(super) stream: Option<u64>,
    /// Position where the stream began.
    pub(super) entry: Entry,
}

impl Kept {
    /// Opens the checkpoint. Returns its entries as well.
    pub(super) fn open(
        config: &Config,
        pull_bytes: u64,
        host: &Host,
    ) -> Result<Option<(Self, Vec<Entry>)>> {
        let Some(path) = &config.checkpoint else { return Ok(None) };
        let (checkpoint, entries) = Checkpoint::open(path)?;
        if let Some(error) = &checkpoint.damage {
            let copy = checkpoint.copy_path();
            warn!(host, "{error}; the positions in `{}` are used, which are older", copy.display());
        }
        // Half of `read_ahead` waits for acknowledgements. The other half is acknowledged and not written yet.
        let half = (config.read_ahead.get() / 2).max(1);
        let chunk_bytes = config.chunk_bytes.get() as u64;
        let most_bytes = half.saturating_mul(chunk_bytes);
        let most_pull_bytes =
            if most_bytes >= 4 * FAST_IN_FLIGHT { FAST_PULL_BYTES } else { PULL_BYTES };
        // The pull that reaches the limit adds its bytes.
        let last = pull_bytes.max(most_pull_bytes as u64).min(chunk_bytes);
        let bytes = most_bytes.saturating_sub(last - 1).max(1);
        let most_in_flight = InFlight { bytes, key: "read_ahead", ..InFlight::UNLIMITED };
        let shared = Shared {
            host: host.clone(),
            marks: Watermarks::new(),
            interval_ns: nanoseconds(config.checkpoint_interval.get()),
            most_unwritten: half.saturating_mul(chunk_bytes).min(UNWRITTEN),
            checkpoint: Mutex::new(Some(checkpoint)),
            state: Mutex::default(),
        };
        Ok(Some((Self { shared: Arc::new(shared), most_in_flight, most_pull_bytes }, entries)))
    }

    /// Returns the number of bytes that the next pulls are to read: few if the sinks take long to answer.
    pub(super) fn pull_bytes(&self) -> usize {
        let state = self.shared.state();
        let is_fast = state.answered_in_ns.is_some_and(|time| time < FAST_NS);
        if is_fast && state.in_flight <= FAST_IN_FLIGHT { self.most_pull_bytes } else { PULL_BYTES }
    }

    /// Returns the object that receives acknowledgements.
    pub(super) fn acks(&self) -> Box<dyn Acks> {
        Box::new(KeptAcks { shared: self.shared.clone(), most_in_flight: self.most_in_flight })
    }

    /// Starts the task that writes the checkpoint. The task ends when its handle is dropped.
    pub(super) fn start(&self) -> Task {
        self.shared.host.spawn("checkpoint", keep(self.shared.clone()))
    }

    /// Returns the handle for the source, which hands pulls out.
    pub(super) fn pulls(&self) -> Pulls {
        Pulls(self.shared.clone())
    }

    /// Replaces the files that the checkpoint has by those that `update` returns. No position is written between
    /// what `update` changes and the replacement.
    pub(super) fn replace(&self, update: impl FnOnce(&Watermarks<u64>) -> Vec<Tracked>) {
        let mut state = self.shared.state();
        state.files = update(&self.shared.marks);
    }

    /// Returns whether the checkpoint is to be written before more is read.
    pub(super) fn is_due(&self) -> bool {
        let state = self.shared.state();
        self.shared.is_due(&state, self.shared.host.monotonic_ns())
    }

    /// Makes the checkpoint due at once.
    pub(super) fn keep_soon(&self) {
        self.shared.state().sync_at_ns = 0;
    }

    /// Writes the checkpoint, and makes it durable if its interval is over. May block.
    pub(super) fn save(&self) -> Result<()> {
        self.shared.save()
    }

    /// Makes the checkpoint durable, and unlocks it. May block.
    pub(super) fn close(&self) -> Result<()> {
        self.keep_soon();
        let saved = self.save();
        self.shared.state().is_closed = true;
        *lock(&self.shared.checkpoint) = None;
        saved
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        // Work that writes the checkpoint just now unlocks it when it ends.
        match self.shared.checkpoint.try_lock() {
            Ok(mut checkpoint) => *checkpoint = None,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = None,
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Handle of the positions for the source, which hands pulls out. No method blocks.
#[derive(Clone)]
pub(super) struct Pulls(Arc<Shared>);

impl Pulls {
    /// Begins to push events to the batch of a pull: see [`Watermarks::begin`].
    pub(super) fn begin<'b>(&'b self, batch: &'b mut RawBatch) -> Begin<'b, u64, Raw> {
        self.0.marks.begin(batch)
    }

    /// Sets the number of bytes that a pull has read.
    pub(super) fn set_bytes(&self, pull: u64, bytes: u64) {
        let since_ns = self.0.host.monotonic_ns();
        let mut state = self.0.state();
        state.pulls.insert(pull, Pulled { bytes, since_ns });
        state.in_flight += bytes;
    }
}

/// Receives acknowledgements from the runtime.
struct KeptAcks {
    shared: Arc<Shared>,
    most_in_flight: InFlight,
}

impl Acks for KeptAcks {
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
        self.shared.marks.clone().fail(pull, events)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Counts a pull that was acknowledged, and wakes the task if it has to act.
    fn acknowledged(&self, pull: u64) {
        let waker = {
            let mut state = self.state();
            let ended = state.end(pull);
            let was_due = self.has_enough(&state);
            if let Some(Pulled { bytes, since_ns }) = ended {
                state.unwritten += bytes;
                state.answered_in_ns = Some(self.host.monotonic_ns().saturating_sub(since_ns));
            }
            let is_first = !std::mem::replace(&mut state.is_unsynced, true);
            let is_due = self.has_enough(&state) && !was_due;
            if is_first || is_due { state.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn has_enough(&self, state: &State) -> bool {
        let is_long = state.length > LONG_CHECKPOINT;
        let least = if is_long { state.length.saturating_mul(4) } else { 0 };
        state.unwritten >= self.most_unwritten.max(least)
    }

    fn is_due(&self, state: &State, now_ns: u64) -> bool {
        self.has_enough(state) || now_ns >= state.sync_at_ns
    }

    fn save(&self) -> Result<()> {
        let mut checkpoint = lock(&self.checkpoint);
        let Some(checkpoint) = &mut *checkpoint else { return Ok(()) };
        let now_ns = self.host.monotonic_ns();
        let (entries, is_durable) = {
            let mut state = self.state();
            let is_durable = now_ns >= state.sync_at_ns;
            state.unwritten = 0;
            state.is_unsynced &= !is_durable;
            if is_durable {
                // Before the write: a file that comes meanwhile makes the checkpoint due again.
                state.sync_at_ns = now_ns.saturating_add(self.interval_ns);
            }
            (state.files.iter().map(|file| self.entry(file)).collect(), is_durable)
        };
        let saved = checkpoint.save(entries, is_durable);
        let mut state = self.state();
        state.length = checkpoint.length();
        if saved.is_err() {
            state.is_unsynced = true;
            if is_durable {
                state.sync_at_ns = 0;
            }
        }
        saved
    }

    fn entry(&self, Tracked { stream, entry }: &Tracked) -> Entry {
        let position = stream.and_then(|stream| self.marks.of(stream)).unwrap_or(entry.position);
        Entry { position, ..entry.clone() }
    }
}

/// Writes the checkpoint whenever it is due after an acknowledgement, until its task is dropped.
async fn keep(shared: Arc<Shared>) {
    let mut has_failed = false;
    loop {
        let sync_at_ns = poll_fn(|context| {
            let mut state = shared.state();
            if state.is_unsynced {
                return Poll::Ready(state.sync_at_ns);
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        });
        let sync_at_ns = sync_at_ns.await;
        let mut wait_ns = sync_at_ns.saturating_sub(shared.host.monotonic_ns());
        if has_failed {
            wait_ns = wait_ns.max(shared.interval_ns);
        }
        let mut timer = pin!(shared.host.sleep(Duration::from_nanos(wait_ns)));
        poll_fn(|context| {
            let mut state = shared.state();
            if !has_failed && shared.has_enough(&state) {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            drop(state);
            timer.as_mut().poll(context)
        })
        .await;
        if shared.state().is_closed {
            return;
        }
        let saving = shared.clone();
        let saved = shared.host.blocking(move || {
            let is_due = saving.is_due(&saving.state(), saving.host.monotonic_ns());
            if is_due { saving.save() } else { Ok(()) }
        });
        let error = saved.await.and_then(|saved| saved).err();
        if let Some(error) = error.as_ref().filter(|_| !has_failed) {
            warn!(shared.host, "{error}; the positions are written again later");
        }
        has_failed = error.is_some();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
