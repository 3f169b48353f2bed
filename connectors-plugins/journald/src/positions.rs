//! Positions in the journal, and the task that writes the acknowledged position to the checkpoint.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{
    Acks, Host, InFlight, Problem, Result, Task, Watermarks, lock, net::within, warn,
};

use crate::{Config, checkpoint::Checkpoint, point::Position};

/// Number of the only stream.
pub(crate) const STREAM: u64 = 0;

/// Number of acknowledged bytes after which the checkpoint is written before `checkpoint_interval` is over. The
/// acknowledged entries that are not in the checkpoint are redelivered after a crash.
const UNWRITTEN: u64 = 1 << 20;

/// The acknowledged position of a connector with a checkpoint.
pub(crate) struct Positions {
    shared: Arc<Shared>,
    /// Acknowledgements of the current connection.
    marks: Watermarks<Position>,
    read_ahead_bytes: usize,
}

struct Shared {
    host: Host,
    /// The checkpoint; `None` after it was closed. Locked during a write, so lock the checkpoint only where the thread
    /// may block.
    checkpoint: Mutex<Option<Checkpoint>>,
    /// `true` once the connector was dropped, so that the checkpoint has to be closed.
    is_closed: AtomicBool,
    /// Field `read` of the position in the checkpoint.
    saved: AtomicU64,
    interval: Duration,
    failed: Failed,
    /// The problem that the checkpoint cannot be written.
    problem: Problem,
}

impl Positions {
    /// Opens the checkpoint. Returns the position from which to read: that of the checkpoint, or `start` in the first
    /// run. May block.
    pub(crate) fn open(
        path: &Path,
        config: &Config,
        start: Position,
        host: Host,
    ) -> Result<(Self, Position)> {
        let (checkpoint, point) = Checkpoint::open(path, start.point)?;
        let shared = Shared {
            problem: host.problem("checkpoint"),
            host,
            checkpoint: Mutex::new(Some(checkpoint)),
            is_closed: AtomicBool::new(false),
            saved: AtomicU64::new(0),
            interval: config.checkpoint_interval.get(),
            failed: Failed::default(),
        };
        let read_ahead_bytes = config.read_ahead_bytes.in_memory();
        let positions =
            Self { shared: Arc::new(shared), marks: Watermarks::new(), read_ahead_bytes };
        Ok((positions, Position { point, read: 0 }))
    }

    /// Returns the position up to which the entries of the current connection are acknowledged;
    /// `None` if none is.
    pub(crate) fn acknowledged(&self) -> Option<Position> {
        self.marks.of(STREAM)
    }

    /// Replaces the acknowledgements of the last connection by those of a new one.
    pub(crate) fn begin_connection(&mut self) {
        let limits = InFlight {
            bytes: self.read_ahead_bytes,
            key: "read_ahead_bytes",
            ..InFlight::UNLIMITED
        };
        self.marks = Watermarks::new().at_most(limits);
    }

    /// Starts the task that writes the checkpoint, and returns the positions for the source of the current connection.
    pub(crate) fn keep(&self) -> Kept {
        let (shared, marks) = (self.shared.clone(), self.marks.clone());
        let keeper = shared.host.spawn("checkpoint", keep(shared.clone(), marks.clone()));
        Kept { shared, marks, keeper: Some(keeper) }
    }
}

impl Drop for Positions {
    /// Closes the checkpoint, which unlocks it, even if the task that writes the checkpoint still
    /// exists.
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // A write in progress closes the checkpoint when it ends.
        match self.shared.checkpoint.try_lock() {
            Ok(mut checkpoint) => *checkpoint = None,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = None,
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// The positions of a connection, as its source uses them.
pub(crate) struct Kept {
    shared: Arc<Shared>,
    pub(crate) marks: Watermarks<Position>,
    keeper: Option<Task>,
}

impl Kept {
    pub(crate) fn acks(&self) -> Box<dyn Acks> {
        Box::new(self.marks.clone())
    }

    /// Returns `Ready` once after a pull has failed.
    pub(crate) fn poll_failed(&self, context: &Context<'_>) -> Poll<()> {
        self.shared.failed.poll(context)
    }

    /// Writes the acknowledged position.
    pub(crate) async fn close(&mut self) -> Result<()> {
        self.keeper = None;
        let Some(position) = self.marks.of(STREAM) else { return Ok(()) };
        let shared = self.shared.clone();
        self.shared.host.blocking(move || shared.save(&position)).await?
    }
}

impl Shared {
    /// Writes the position, unless the checkpoint has a later one. May block.
    fn save(&self, position: &Position) -> Result<()> {
        let mut locked = lock(&self.checkpoint);
        let Some(checkpoint) = &mut *locked else { return Ok(()) };
        if position.read > self.saved.load(Ordering::Relaxed) {
            let saved = checkpoint.save(&position.point);
            self.problem.update(&saved);
            saved?;
            self.saved.store(position.read, Ordering::Relaxed);
        }
        if self.is_closed.load(Ordering::SeqCst) {
            *locked = None;
        }
        Ok(())
    }
}

/// Writes the checkpoint whenever it is due after an acknowledgement, until the task is dropped. Notifies the source of
/// failed pulls.
async fn keep(shared: Arc<Shared>, marks: Watermarks<Position>) {
    let host = &shared.host;
    let (mut unwritten, mut due_ns, mut has_failed) = (None::<Position>, 0_u64, false);
    loop {
        let progress = match &unwritten {
            None => Some(marks.progress().await),
            Some(_) => {
                let wait = due_ns.saturating_sub(host.monotonic_ns());
                within(host, Duration::from_nanos(wait), marks.progress()).await
            }
        };
        if let Some(mut progress) = progress {
            if progress.has_failed {
                shared.failed.notify();
            }
            unwritten = progress.acknowledged.pop().map(|(_, position)| position).or(unwritten);
        }
        let Some(position) = unwritten.clone() else { continue };
        let bytes = position.read.saturating_sub(shared.saved.load(Ordering::Relaxed));
        let now_ns = host.monotonic_ns();
        if now_ns < due_ns && (bytes < UNWRITTEN || has_failed) {
            continue;
        }
        let interval_ns = u64::try_from(shared.interval.as_nanos()).unwrap_or(u64::MAX);
        due_ns = now_ns.saturating_add(interval_ns);
        let saves = shared.clone();
        let saved = host.blocking(move || saves.save(&position)).await.and_then(|saved| saved);
        match saved {
            Ok(()) => unwritten = None,
            Err(error) if !has_failed => warn!(host, "{error}; the write is retried later"),
            Err(_) => {}
        }
        has_failed = unwritten.is_some();
    }
}

/// Notification of the source that a pull has failed.
#[derive(Default)]
struct Failed(Mutex<FailedState>);

#[derive(Default)]
struct FailedState {
    has_failed: bool,
    waiting: Option<Waker>,
}

impl Failed {
    fn notify(&self) {
        let waiting = {
            let mut state = lock(&self.0);
            state.has_failed = true;
            state.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if std::mem::take(&mut state.has_failed) {
            return Poll::Ready(());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}
