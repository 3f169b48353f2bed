//! State of a connection that its task shares with other tasks: the phase, the start of the phase,
//! and the current request.

use std::{
    cell::Cell,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tremor_pdk::{Origin, net::peer_origin};

use super::{config::Config, request_state::RequestState};

/// The condition for which a connection waits. The phase determines the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// The start of a request.
    Idle,
    /// The remainder of a request's head.
    Head,
    /// The remainder of a request's body.
    Body,
    /// Capacity of the queue, or a pull.
    Queued,
    /// The result of the events. This phase has no limit.
    Flow,
    /// The end of the peer's data, after the server has closed the connection.
    Last,
}

/// Maximum duration of each phase.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    idle: Duration,
    head: Duration,
    body: Duration,
    queue: Duration,
}

/// Maximum time to close a connection, including the time to read and discard the remainder of a
/// request.
const LAST: Duration = Duration::from_secs(2);

/// Number of clock ticks within the shortest limit.
const TICKS: u32 = 8;

/// Minimum and maximum time between two ticks.
const TICK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            idle: config.idle_timeout.get(),
            head: config.header_timeout.get(),
            body: config.body_timeout.get(),
            queue: config.max_wait.get(),
        }
    }

    fn of(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Idle => Some(self.idle),
            Phase::Head => Some(self.head),
            Phase::Body => Some(self.body),
            Phase::Queued => Some(self.queue),
            Phase::Flow => None,
            Phase::Last => Some(LAST),
        }
    }

    /// Returns the time between two ticks, at which the phases are checked.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.idle.min(self.head).min(self.body).min(self.queue);
        (shortest / TICKS).clamp(TICK.0, TICK.1)
    }
}

/// Clock that a task advances in ticks, so that the start of a phase only needs to read an atomic.
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
    /// Address of the [`Peer`] that this thread is polling; 0 if there is none.
    static POLLED: Cell<usize> = const { Cell::new(0) };
}

/// State of a connection. Also serves as the waker for the work of the connection, and wakes the
/// task of the connection. Cloning this waker allocates nothing, unlike cloning a waker of the
/// host.
pub(crate) struct Peer {
    /// Number of the stream.
    pub(crate) stream: u64,
    /// Origin of the requests until [`Peer::set_client`] is called.
    origin: Origin,
    /// Origin of the requests if a load balancer forwards the connection.
    client: OnceLock<Origin>,
    /// The phase in the lowest byte, and the tick at which the phase started in the other bytes.
    phase: AtomicU64,
    is_overdue: AtomicBool,
    /// `true` if the last response was sent before the whole request was read.
    is_cut_short: AtomicBool,
    /// State of the current request.
    pub(crate) request_state: RequestState,
    /// Waker of the task. It stays valid as long as the task lives, so it is stored only once.
    task: OnceLock<Waker>,
    /// `true` if the connection was woken during a poll, so that it has to be polled again.
    is_woken: AtomicBool,
}

impl Peer {
    pub(crate) fn new(stream: u64, origin: Origin, clock: &Clock) -> Self {
        let peer = Self {
            stream,
            origin,
            client: OnceLock::new(),
            phase: AtomicU64::new(0),
            is_overdue: AtomicBool::new(false),
            is_cut_short: AtomicBool::new(false),
            request_state: RequestState::default(),
            task: OnceLock::new(),
            is_woken: AtomicBool::new(false),
        };
        peer.begin(Phase::Idle, clock);
        peer
    }

    /// Returns the origin of the requests, whose text is the address of the client.
    pub(crate) fn origin(&self) -> &Origin {
        self.client.get().unwrap_or(&self.origin)
    }

    /// Sets the address of the client for which a load balancer has opened the connection. Only the first call has an
    /// effect.
    pub(crate) fn set_client(&self, client: SocketAddr) {
        self.client.get_or_init(|| peer_origin(client));
    }

    /// Starts a phase.
    pub(crate) fn begin(&self, phase: Phase, clock: &Clock) {
        self.phase.store(clock.now() << 8 | phase as u64, Ordering::Relaxed);
        if self.is_overdue.load(Ordering::Relaxed) {
            self.is_overdue.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the current phase.
    pub(crate) fn phase(&self) -> Phase {
        let of = [Phase::Idle, Phase::Head, Phase::Body, Phase::Queued, Phase::Flow, Phase::Last];
        let phase = self.phase.load(Ordering::Relaxed) & 0xff;
        usize::try_from(phase).ok().and_then(|it| of.get(it).copied()).unwrap_or(Phase::Last)
    }

    /// Marks the connection as overdue and wakes its task if the phase takes too long. Called once
    /// in each tick.
    pub(crate) fn check_phase(&self, clock: &Clock, tick: Duration) {
        let Some(limit) = clock.limits.of(self.phase()) else { return };
        let since = self.phase.load(Ordering::Relaxed) >> 8;
        // Do not count the first tick, which may have followed the start of the phase immediately.
        let ticks = u32::try_from(clock.now().saturating_sub(since)).unwrap_or(u32::MAX);
        if tick.saturating_mul(ticks.saturating_sub(1)) >= limit {
            self.is_overdue.store(true, Ordering::Relaxed);
            self.wake_task();
        }
    }

    /// Returns whether the current phase takes too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overdue.load(Ordering::Relaxed)
    }

    pub(crate) fn set_cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Ordering::Relaxed)
    }

    /// Stores the waker of the task at the task's first poll.
    pub(crate) fn polled(&self, context: &Context<'_>) {
        self.task.get_or_init(|| context.waker().clone());
    }

    /// Polls `work` with the waker `own`. If `own` is woken during the poll and `work` is still
    /// pending, wakes the task after the poll, unless [`Peer::ignore_wakes`] was called meanwhile.
    pub(crate) fn poll<T>(
        self: &Arc<Self>,
        context: &Context<'_>,
        own: &Waker,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.polled(context);
        let polled = {
            let _until_dropped = PollGuard::new(self);
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

    /// Discards the wakes that happened during the current poll so far.
    pub(crate) fn ignore_wakes(&self) {
        self.is_woken.store(false, Ordering::Relaxed);
    }

    /// Wakes the task of the connection.
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

/// Marks a connection as being polled by this thread, until the guard is dropped.
struct PollGuard {
    before: usize,
}

impl PollGuard {
    fn new(peer: &Peer) -> Self {
        Self { before: POLLED.replace(peer.address()) }
    }
}

impl Drop for PollGuard {
    fn drop(&mut self) {
        POLLED.set(self.before);
    }
}
