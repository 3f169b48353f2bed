//! A connection as others see it: what it waits for, and since when.

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use crate::{config::Config, fate::Fate};

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

thread_local! {
    /// The address of the connection that this thread polls.
    static POLLED: Cell<usize> = const { Cell::new(0) };
}

/// A connection. As a waker it wakes its task, at less cost than the host's wakers, each of which is an allocation.
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
    /// What becomes of its request.
    pub(crate) fate: Fate,
    /// A waker of its task. It stays good as long as the task lives.
    task: OnceLock<Waker>,
    /// Whether it was woken by what it did itself, so that it is to be polled again.
    is_woken: AtomicBool,
}

impl Peer {
    pub(crate) fn new(stream: u64, name: Box<str>, clock: &Clock) -> Self {
        let peer = Self {
            stream,
            name,
            phase: AtomicU64::new(0),
            is_overdue: AtomicBool::new(false),
            is_cut_short: AtomicBool::new(false),
            fate: Fate::default(),
            task: OnceLock::new(),
            is_woken: AtomicBool::new(false),
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
            self.wake_task();
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
        self.task.get_or_init(|| context.waker().clone());
    }

    /// Polls for its task, with this waker of its own. Where it wakes itself meanwhile, its task is woken
    /// afterwards, unless nothing comes of that ([`Peer::ignore_wakes`]).
    pub(crate) fn poll<T>(
        self: &Arc<Self>,
        context: &Context<'_>,
        own: &Waker,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.polled(context);
        let polled = {
            let _until_dropped = Polled::new(self);
            work(&mut Context::from_waker(own))
        };
        if self.is_woken.load(Ordering::Relaxed) {
            self.is_woken.store(false, Ordering::Relaxed);
            if polled.is_pending() {
                self.wake_task();
            }
        }
        polled
    }

    /// Whatever has woken its task since this poll has begun, from within it, is done with.
    pub(crate) fn ignore_wakes(&self) {
        self.is_woken.store(false, Ordering::Relaxed);
    }

    /// Has its task look at what has changed.
    pub(crate) fn wake_task(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Wake for Peer {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if POLLED.get() == self.address() {
            self.is_woken.store(true, Ordering::Relaxed);
        } else {
            self.wake_task();
        }
    }
}

/// A thread polls a connection, as long as this lives.
struct Polled {
    before: usize,
}

impl Polled {
    fn new(peer: &Peer) -> Self {
        Self { before: POLLED.replace(peer.address()) }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        POLLED.set(self.before);
    }
}
