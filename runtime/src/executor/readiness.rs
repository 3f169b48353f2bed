//! File descriptors that tasks wait for. A descriptor is registered with the operating system once. After that, each
//! wait takes two system calls.

use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{
        EventfdFlags, Timespec,
        epoll::{self, EventData, EventFlags as Flags},
        eventfd,
    },
    io::Errno,
};
use tremor_pdk::lock;

/// Maximum number of events that one wait handles.
const EVENTS: usize = 256;
/// Number that marks events of the signal. Numbers of registrations are greater.
const SIGNAL: u64 = 0;

/// Buffer for the events of one thread.
pub(super) type Events = Vec<epoll::Event>;

/// The descriptors that tasks of the process wait for, and a signal that wakes a thread.
///
/// Only one thread waits at a time; other threads may poll meanwhile. Each event is delivered to one of these threads.
#[derive(Debug)]
pub(super) struct Readiness {
    epoll: OwnedFd,
    /// Event descriptor of the signal. It is edge-triggered, so each write wakes one thread, and the descriptor never
    /// has to be read.
    signal: OwnedFd,
    registered: Mutex<HashMap<u64, Arc<Mutex<State>>>>,
    last: AtomicU64,
    has_failed: AtomicBool,
}

impl Readiness {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &signal, EventData::new_u64(SIGNAL), Flags::IN | Flags::ET)?;
        Ok(Self {
            epoll,
            signal,
            registered: Mutex::default(),
            last: AtomicU64::new(SIGNAL),
            has_failed: AtomicBool::new(false),
        })
    }

    pub(super) fn events() -> Events {
        Vec::with_capacity(EVENTS)
    }

    /// Wakes the thread that waits, or else the next thread that is going to wait.
    pub(super) fn signal(&self) {
        // The write fails only if the counter is full. A signal is pending then.
        _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
    }

    /// Waits for an event or the signal, and wakes the tasks that wait for these events.
    pub(super) fn wait(&self, events: &mut Events) {
        self.wait_for(events, None);
    }

    /// Wakes the tasks that wait for pending events, without waiting. Returns whether the signal was pending.
    pub(super) fn poll(&self, events: &mut Events) -> bool {
        self.wait_for(events, Some(&Timespec::default()))
    }

    fn wait_for(&self, events: &mut Events, timeout: Option<&Timespec>) -> bool {
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                // Code outside the executor has closed a descriptor of the executor. Tasks continue to run, but cannot
                // wait for descriptors.
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "the executor can no longer wait for file descriptors");
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        let mut is_signalled = false;
        for event in &*events {
            match event.data.u64() {
                SIGNAL => is_signalled = true,
                number => {
                    let registered = lock(&self.registered).get(&number).cloned();
                    // A waker that panics must not end the thread.
                    let notify = || registered.iter().for_each(|state| is_ready(state));
                    _ = catch_unwind(AssertUnwindSafe(notify));
                }
            }
        }
        is_signalled
    }
}

/// Condition that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Reading does not block.
    Readable,
    /// Writing does not block.
    Writable,
}

/// A file descriptor whose readiness can be awaited repeatedly. It is registered with the operating system once.
#[derive(Debug)]
pub struct Watched {
    readiness: &'static Readiness,
    descriptor: OwnedFd,
    flags: Flags,
    number: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    waits: Option<Waker>,
    /// `true` while the operating system is armed to report the next event.
    is_armed: bool,
    /// `true` if an event was reported since the last poll that returned ready.
    is_ready: bool,
}

/// Handles an event of a descriptor.
fn is_ready(state: &Mutex<State>) {
    let waits = {
        let mut state = lock(state);
        // The operating system reports errors and closed connections even if not armed, and reports them again once
        // armed.
        if !state.is_armed {
            return;
        }
        (state.is_armed, state.is_ready) = (false, true);
        state.waits.take()
    };
    waits.into_iter().for_each(Waker::wake);
}

impl Watched {
    pub(super) fn new(
        readiness: &'static Readiness,
        descriptor: OwnedFd,
        interest: Interest,
    ) -> io::Result<Self> {
        let number = readiness.last.fetch_add(1, Ordering::Relaxed) + 1;
        let flags = match interest {
            Interest::Readable => Flags::IN | Flags::PRI | Flags::RDHUP,
            Interest::Writable => Flags::OUT,
        };
        epoll::add(&readiness.epoll, &descriptor, EventData::new_u64(number), Flags::ONESHOT)?;
        let state = Arc::<Mutex<State>>::default();
        lock(&readiness.registered).insert(number, state.clone());
        Ok(Self { readiness, descriptor, flags, number, state })
    }

    /// Completes when reading or writing does not block. A descriptor with an error or without a peer counts as
    /// ready.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { readiness, descriptor, flags, number, state } = self;
        let mut state = lock(state);
        if state.is_ready {
            (state.is_ready, state.waits) = (false, None);
            return Poll::Ready(Ok(()));
        }
        match &mut state.waits {
            Some(waits) => waits.clone_from(context.waker()),
            waits @ None => *waits = Some(context.waker().clone()),
        }
        if !state.is_armed {
            let data = EventData::new_u64(*number);
            epoll::modify(&readiness.epoll, descriptor, data, *flags | Flags::ONESHOT)?;
            state.is_armed = true;
        }
        Poll::Pending
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        _ = epoll::delete(&self.readiness.epoll, &self.descriptor);
        lock(&self.readiness.registered).remove(&self.number);
    }
}
