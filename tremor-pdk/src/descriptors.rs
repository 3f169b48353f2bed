//! File descriptors that stay registered: for connectors with many sockets.

use std::{
    future::poll_fn,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
};
use tremor_abi::host::Interest;

use crate::{Error, Host, Result, Task, lock::lock, yield_now};

/// How many descriptors are seen to at a time.
const EVENTS: usize = 256;

/// How many turns of all tasks there are before it is looked again: a request is read in the first one, comes into
/// the flow in the second one, and is answered in the third one.
const TURNS: usize = 3;

/// File descriptors that are waited for, as many as a connector has.
///
/// The operating system knows each of them once, for as long as it is [registered](Descriptors::register).
/// The host waits for all of them together: whenever some are ready, it is asked once, and each task that
/// waits for one of them is woken. Cheap to clone; dropped with its last clone and the last registered
/// descriptor.
#[derive(Clone)]
pub struct Descriptors {
    set: Arc<Set>,
    // Ends with the last clone.
    _task: Arc<Task>,
}

/// A descriptor that is registered, until it is dropped: a socket, a pipe, a terminal.
///
/// It is to be set not to block. One task may wait to read it, and one to write it.
pub struct Registered<D: AsFd> {
    // Closed after it was taken out of the set.
    entry: Arc<Entry>,
    descriptors: Descriptors,
    io: D,
}

struct Set {
    epoll: OwnedFd,
    entries: Mutex<Entries>,
    /// What the host cannot wait for the set with.
    failed: OnceLock<Error>,
}

#[derive(Default)]
struct Entries {
    list: Vec<Option<Arc<Entry>>>,
    free: Vec<usize>,
    /// How many there ever were: an event of one that is gone is no event of its successor.
    count: u32,
}

struct Entry {
    /// Its place in the list.
    place: usize,
    /// What the operating system names it by: its number, and its place in the lower half.
    token: u64,
    sides: [Mutex<Side>; 2],
    is_hung_up: AtomicBool,
    /// Whether there were ever urgent data, at which a read stops short of what is after them.
    has_urgent: AtomicBool,
}

/// What is known of reading, or of writing.
#[derive(Default)]
struct Side {
    /// How often the operating system has said that it may be possible.
    events: u64,
    /// Whether nothing is there before the next event.
    is_drained: bool,
    waiting: Option<Waker>,
}

const READING: usize = 0;
const WRITING: usize = 1;

impl Descriptors {
    /// None yet. Not in a constructor: a task of the host waits for them.
    ///
    /// # Errors
    /// The operating system has no descriptor left.
    pub fn new(host: &Host) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let set = Arc::new(Set { epoll, entries: Mutex::default(), failed: OnceLock::new() });
        let mut watch = host.watch(set.epoll.as_raw_fd(), Interest::READABLE)?;
        let waits = set.clone();
        let task = host.spawn("waits for descriptors", async move {
            let error = loop {
                if let Err(error) = watch.ready().await {
                    break error;
                }
                if let Err(error) = waits.wake_while_busy().await {
                    break error.into();
                }
            };
            waits.fail(&error);
        });
        Ok(Self { set, _task: Arc::new(task) })
    }

    /// Registers a descriptor, which is set not to block.
    ///
    /// # Errors
    /// The operating system's: regular files cannot be waited for.
    pub fn register<D: AsFd>(&self, io: D) -> io::Result<Registered<D>> {
        let entry = self.set.add();
        let descriptors = self.clone();
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::PRI
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(entry.token);
        if let Err(error) = epoll::add(&self.set.epoll, io.as_fd(), data, flags) {
            self.set.remove(&entry);
            return Err(error.into());
        }
        Ok(Registered { entry, descriptors, io })
    }
}

impl<D: AsFd> Registered<D> {
    /// The descriptor.
    pub fn get_ref(&self) -> &D {
        &self.io
    }

    /// The set that it is registered with.
    pub(crate) fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// Whether the peer has closed its side, as far as the operating system has said: for a sink that reads
    /// nothing, and would write into the void.
    pub fn is_hung_up(&self) -> bool {
        self.entry.is_hung_up.load(Ordering::Relaxed)
    }

    /// Ready with what `read` comes to, once that is not [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// Those of `read`; another where the host cannot wait.
    pub fn poll_read_with<T>(
        &self,
        context: &Context<'_>,
        read: impl FnMut(&D) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_with(READING, context, read, |_| false)
    }

    /// As [`Registered::poll_read_with`], for a stream of bytes of which a read brings all that there is, up to
    /// `space`. After one that has brought less there is no other before the system has said that there is
    /// more: it would cost as much, and bring nothing.
    #[cfg(feature = "net")]
    pub(crate) fn poll_read_bytes(
        &self,
        context: &Context<'_>,
        space: usize,
        read: impl FnMut(&D) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_with(READING, context, read, |count| (1..space).contains(count))
    }

    /// As [`Registered::poll_read_with`], for what writes.
    ///
    /// # Errors
    /// Those of `write`; another where the host cannot wait.
    pub fn poll_write_with<T>(
        &self,
        context: &Context<'_>,
        write: impl FnMut(&D) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_with(WRITING, context, write, |_| false)
    }

    /// Waits for what `read` comes to: `socket.read_with(|mut socket| socket.read(&mut buffer)).await`.
    ///
    /// # Errors
    /// As [`Registered::poll_read_with`].
    pub async fn read_with<T>(&self, mut read: impl FnMut(&D) -> io::Result<T>) -> io::Result<T> {
        poll_fn(|context| self.poll_read_with(context, &mut read)).await
    }

    /// As [`Registered::read_with`], for what writes.
    ///
    /// # Errors
    /// As [`Registered::poll_write_with`].
    pub async fn write_with<T>(&self, mut write: impl FnMut(&D) -> io::Result<T>) -> io::Result<T> {
        poll_fn(|context| self.poll_write_with(context, &mut write)).await
    }

    fn poll_with<T>(
        &self,
        side: usize,
        context: &Context<'_>,
        mut work: impl FnMut(&D) -> io::Result<T>,
        drains: impl Fn(&T) -> bool,
    ) -> Poll<io::Result<T>> {
        let side = &self.entry.sides[side];
        loop {
            let (seen, is_drained) = {
                let side = lock(side);
                (side.events, side.is_drained)
            };
            if !is_drained {
                match work(&self.io) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    result => {
                        if result.as_ref().is_ok_and(&drains) {
                            self.entry.drained(side, seen);
                        }
                        return Poll::Ready(result);
                    }
                }
            }
            let mut side = lock(side);
            // Otherwise it may have become possible since it was tried.
            if side.events == seen {
                side.waiting = Some(context.waker().clone());
                drop(side);
                // What fails later finds the waker.
                let failed = self.descriptors.set.failed.get();
                return failed.map_or(Poll::Pending, |error| {
                    Poll::Ready(Err(io::Error::other(error.clone())))
                });
            }
        }
    }
}

impl<D: AsFd> Drop for Registered<D> {
    fn drop(&mut self) {
        // One that was closed by others is out of the set already.
        let _ = epoll::delete(&self.descriptors.set.epoll, self.io.as_fd());
        self.descriptors.set.remove(&self.entry);
    }
}

impl Set {
    fn add(&self) -> Arc<Entry> {
        let entries = &mut *lock(&self.entries);
        entries.count = entries.count.wrapping_add(1);
        let place = entries.free.pop().unwrap_or_else(|| {
            entries.list.push(None);
            entries.list.len() - 1
        });
        let token = u64::from(entries.count) << 32 | place as u64;
        let entry = Arc::new(Entry {
            place,
            token,
            sides: Default::default(),
            is_hung_up: AtomicBool::new(false),
            has_urgent: AtomicBool::new(false),
        });
        entries.list[place] = Some(entry.clone());
        entry
    }

    fn remove(&self, entry: &Entry) {
        let entries = &mut *lock(&self.entries);
        entries.list[entry.place] = None;
        entries.free.push(entry.place);
    }

    /// Wakes what waits for descriptors that are ready. Where there are several, it looks again when the tasks that
    /// it has woken have run, and whom they have woken: for the host to wait for the set takes several calls to the
    /// system.
    async fn wake_while_busy(&self) -> io::Result<()> {
        while self.wake_ready()? > 1 {
            for _ in 0..TURNS {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Wakes what waits for descriptors that are ready, and says how many those were.
    fn wake_ready(&self) -> io::Result<usize> {
        let mut count = 0;
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec::default()))
            {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            events.iter().for_each(|event| self.wake(event.data.u64(), event.flags));
            count += events.len();
            if events.len() < EVENTS {
                return Ok(count);
            }
        }
    }

    fn wake(&self, token: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as Flags;
        let place = usize::try_from(token & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let entry = lock(&self.entries).list.get(place).cloned().flatten();
        let Some(entry) = entry.filter(|entry| entry.token == token) else { return };
        let failed = Flags::ERR | Flags::HUP;
        if flags.intersects(Flags::RDHUP | failed) {
            entry.is_hung_up.store(true, Ordering::Relaxed);
        }
        if flags.contains(Flags::PRI) {
            entry.has_urgent.store(true, Ordering::Relaxed);
        }
        let sides = [Flags::IN | Flags::PRI | Flags::RDHUP | failed, Flags::OUT | failed];
        for (side, wanted) in entry.sides.iter().zip(sides) {
            if flags.intersects(wanted) {
                let waiting = {
                    let mut side = lock(side);
                    side.events += 1;
                    side.is_drained = false;
                    side.waiting.take()
                };
                waiting.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// Nothing is waited for any more: whatever waits hears why.
    fn fail(&self, error: &Error) {
        self.failed.get_or_init(|| error.clone());
        let entries = lock(&self.entries).list.clone();
        for side in entries.iter().flatten().flat_map(|entry| &entry.sides) {
            let waiting = lock(side).waiting.take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl Entry {
    /// Nothing is left to read since the operating system has said so many times that there is something.
    /// What it has said only once stays to be read: that the peer has closed its side, and urgent data.
    fn drained(&self, side: &Mutex<Side>, seen: u64) {
        let ends = [&self.is_hung_up, &self.has_urgent];
        let mut side = lock(side);
        side.is_drained = side.events == seen && !ends.iter().any(|it| it.load(Ordering::Relaxed));
    }
}

shows!(Descriptors);

impl<D: AsFd + std::fmt::Debug> std::fmt::Debug for Registered<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registered").field(&self.io).finish()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
