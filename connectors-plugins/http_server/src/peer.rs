//! A connection as others see it: what it waits for, and since when.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use crate::config::Config;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// A request.
    Idle,
    /// The rest of a request without its body.
    Head,
    /// The rest of a body.
    Body,
    /// Room, or a pull.
    Room,
    /// What becomes of the events. There is no limit to that.
    Flow,
    /// The peer's end of a connection that is over.
    Last,
}

/// How long each phase may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    idle: Duration,
    head: Duration,
    body: Duration,
    room: Duration,
}

/// How long a peer may go on that was answered before all of it was read.
const LAST: Duration = Duration::from_secs(2);

/// The clock has ticked so often within the shortest limit when that is over.
const TICKS: u32 = 8;

/// The bounds of a tick.
const TICK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            idle: config.idle_timeout.get(),
            head: config.header_timeout.get(),
            body: config.body_timeout.get(),
            room: config.max_wait.get(),
        }
    }

    fn of(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Idle => Some(self.idle),
            Phase::Head => Some(self.head),
            Phase::Body => Some(self.body),
            Phase::Room => Some(self.room),
            Phase::Flow => None,
            Phase::Last => Some(LAST),
        }
    }

    /// How often to look whether a phase is over.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.idle.min(self.head).min(self.body).min(self.room);
        (shortest / TICKS).clamp(TICK.0, TICK.1)
    }
}

/// Time, in ticks of one task: to begin a phase costs no more than to read it.
pub(crate) struct Clock {
    ticks: AtomicU64,
    pub(crate) limits: Limits,
}

impl Clock {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { ticks: AtomicU64::new(0), limits }
    }

    pub(crate) fn tick(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}

/// A connection.
pub(crate) struct Peer {
    /// The number of its stream.
    pub(crate) stream: u64,
    /// Its address.
    pub(crate) name: Box<str>,
    /// The phase in the lower byte, and when it began.
    phase: AtomicU64,
    is_overdue: AtomicBool,
    /// Whether it was answered before all of its request was read.
    is_cut_short: AtomicBool,
    /// Of the task of the connection.
    waker: Mutex<Option<Waker>>,
}

impl Peer {
    pub(crate) fn new(stream: u64, name: Box<str>, clock: &Clock) -> Self {
        let peer = Self {
            stream,
            name,
            phase: AtomicU64::new(0),
            is_overdue: AtomicBool::new(false),
            is_cut_short: AtomicBool::new(false),
            waker: Mutex::new(None),
        };
        peer.begin(Phase::Idle, clock);
        peer
    }

    /// A phase begins.
    pub(crate) fn begin(&self, phase: Phase, clock: &Clock) {
        self.phase.store(clock.now() << 8 | phase as u64, Ordering::Relaxed);
        if self.is_overdue.load(Ordering::Relaxed) {
            self.is_overdue.store(false, Ordering::Relaxed);
        }
    }

    /// What it waits for.
    pub(crate) fn phase(&self) -> Phase {
        let of = [Phase::Idle, Phase::Head, Phase::Body, Phase::Room, Phase::Flow, Phase::Last];
        let phase = self.phase.load(Ordering::Relaxed) & 0xff;
        usize::try_from(phase).ok().and_then(|it| of.get(it).copied()).unwrap_or(Phase::Last)
    }

    /// Looks whether its phase takes too long, and wakes it then.
    pub(crate) fn look(&self, clock: &Clock, tick: Duration) {
        let Some(limit) = clock.limits.of(self.phase()) else { return };
        let since = self.phase.load(Ordering::Relaxed) >> 8;
        // The first tick may have come at once.
        let ticks = u32::try_from(clock.now().saturating_sub(since)).unwrap_or(u32::MAX);
        if tick.saturating_mul(ticks.saturating_sub(1)) >= limit {
            self.is_overdue.store(true, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Whether its phase takes too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overdue.load(Ordering::Relaxed)
    }

    pub(crate) fn set_cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Ordering::Relaxed)
    }

    /// Its task is polled.
    pub(crate) fn polled(&self, context: &Context<'_>) {
        let waker = &mut *self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        // It is polled by its own task only, whose waker stays good as long as it lives: to clone it for each
        // poll costs an allocation.
        waker.get_or_insert_with(|| context.waker().clone());
    }

    /// Has its task look at what has changed.
    pub(crate) fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        waker.into_iter().for_each(Waker::wake);
    }
}
