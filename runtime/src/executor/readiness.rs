//! File descriptors that tasks wait for. Each is registered with the operating system once; a wait takes two calls.

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

use crate::lock::lock;

/// How many descriptors are seen to at a time.
const EVENTS: usize = 256;
/// The signal, among the numbers of registrations.
const SIGNAL: u64 = 0;

/// What one thread needs to wait.
pub(super) type Events = Vec<epoll::Event>;

/// All descriptors that tasks of the process wait for, and a signal. One thread waits at a
/// time, and others may look meanwhile: each event comes to one of them.
#[derive(Debug)]
pub(super) struct Readiness {
    epoll: OwnedFd,
    /// Edge-triggered: a write wakes one thread, and nothing is ever read.
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

    /// Wakes the thread that waits, or the next that will.
    pub(super) fn signal(&self) {
        // It fails only where the count is full: a signal is under way then.
        _ = rustix::io::write(&self.signal, &1_u64.to_ne_bytes());
    }

    /// Waits until there is an event or the signal, and wakes the tasks that wait for it.
    pub(super) fn wait(&self, events: &mut Events) {
        self.wait_for(events, None);
    }

    /// Wakes the tasks that wait for what there is by now. Says whether the signal has come.
    pub(super) fn look(&self, events: &mut Events) -> bool {
        self.wait_for(events, Some(&Timespec::default()))
    }

    fn wait_for(&self, events: &mut Events, timeout: Option<&Timespec>) -> bool {
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                // Somebody has closed a descriptor that is ours. Tasks run on, and do not wait for descriptors.
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "the executor cannot wait for file descriptors any more");
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
                    // A waker that panics must not take the thread with it.
                    let tells = || registered.iter().for_each(|state| is_ready(state));
                    _ = catch_unwind(AssertUnwindSafe(tells));
                }
            }
        }
        is_signalled
    }
}

/// What a descriptor is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// A read would not block.
    Readable,
    /// A write would not block.
    Writable,
}

/// A file descriptor that is waited for again and again: it is registered with the operating system once.
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
    /// The operating system is to tell of it, once.
    is_armed: bool,
    /// It has told of it since it was asked last.
    is_ready: bool,
}

/// The operating system tells of a descriptor.
fn is_ready(state: &Mutex<State>) {
    let waits = {
        let mut state = lock(state);
        // It tells of errors and of lost peers without being asked. Asked, it tells again.
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

    /// Ready when a read, or a write, would not block. A descriptor with an error or without a peer is ready.
    ///
    /// # Errors
    /// The operating system's.
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
