//! File descriptors that stay registered with the operating system, for connectors with many sockets.

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

use crate::{Error, Host, Result, Task, lock, yield_now};

/// Maximum number of readiness events that one call of epoll returns.
const EVENTS: usize = 256;

/// Number of rounds in which all woken tasks run before epoll is called again. Typically a request is read in the first
/// round, enters the flow in the second, and is answered in the third.
const TURNS: usize = 3;

/// A set of registered file descriptors of a connector.
///
/// Register each descriptor once, with [`register`](Descriptors::register). The descriptor stays registered until the
/// [`Registered`] is dropped. The host waits for all descriptors of the set together, through one epoll descriptor.
/// When a descriptor is ready, the tasks that wait for it are woken.
///
/// Clones refer to the same set and are cheap. The set is dropped after its last clone and its last registered
/// descriptor.
#[derive(Clone)]
pub struct Descriptors {
    set: Arc<Set>,
    // The task ends when the last clone of the handle is dropped.
    _task: Arc<Task>,
}

/// A registered descriptor, such as a socket, a pipe or a terminal. Dropping the value ends the registration.
///
/// The descriptor must be in non-blocking mode. At most one task at a time may wait to read, and at most one to write.
pub struct Registered<D: AsFd> {
    // The entry is removed from the set before the descriptor is closed: see `drop`.
    entry: Arc<Entry>,
    descriptors: Descriptors,
    io: D,
}

struct Set {
    epoll: OwnedFd,
    entries: Mutex<Entries>,
    /// The error that ended the task that waits for the set, if any.
    failed: OnceLock<Error>,
}

#[derive(Default)]
struct Entries {
    list: Vec<Option<Arc<Entry>>>,
    free: Vec<usize>,
    /// Number of entries that were ever added. The number is a part of the token, so that an event of a removed entry
    /// is not attributed to a new entry with the same index.
    count: u32,
}

struct Entry {
    /// Index in the list of entries.
    index: usize,
    /// Identifies the entry in epoll events. The upper 32 bits are the count, and the lower 32 bits are the index.
    token: u64,
    sides: [Mutex<Side>; 2],
    is_hung_up: AtomicBool,
    /// `true` once urgent (out-of-band) data was received. A read stops before such data, so a short read does not mean
    /// that no more data is available.
    has_urgent: AtomicBool,
}

/// State of one direction, reading or writing.
#[derive(Default)]
struct Side {
    /// Number of epoll events that reported readiness.
    events: u64,
    /// `true` if the last operation would have blocked, so that the descriptor is ready only after the next event.
    is_drained: bool,
    waiting: Option<Waker>,
}

const READING: usize = 0;
const WRITING: usize = 1;

impl Descriptors {
    /// Creates an empty set. Do not call this in a constructor, because it starts a task of the host.
    ///
    /// # Errors
    /// Returns an error if the process cannot open another file descriptor, or if the host cannot watch descriptors.
    pub fn new(host: &Host) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let set = Arc::new(Set { epoll, entries: Mutex::default(), failed: OnceLock::new() });
        let mut watch = host.watch(set.epoll.as_raw_fd(), Interest::READABLE)?;
        let waiting_set = set.clone();
        let task = host.spawn("waits for descriptors", async move {
            let error = loop {
                if let Err(error) = watch.ready().await {
                    break error;
                }
                if let Err(error) = waiting_set.wake_while_busy().await {
                    break error.into();
                }
            };
            waiting_set.fail(&error);
        });
        Ok(Self { set, _task: Arc::new(task) })
    }

    /// Registers a descriptor, which must be in non-blocking mode.
    ///
    /// # Errors
    /// Returns the errors of the operating system. Regular files cannot be registered.
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
    /// Returns a reference to the descriptor.
    pub fn get_ref(&self) -> &D {
        &self.io
    }

    /// Returns the set with which the descriptor is registered.
    pub(crate) fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// Returns whether the operating system has reported that the peer closed its side. Use this in a sink that does
    /// not read, and would otherwise write to a closed connection.
    pub fn is_hung_up(&self) -> bool {
        self.entry.is_hung_up.load(Ordering::Relaxed)
    }

    /// Calls `read`, and returns its result unless the result is [`io::ErrorKind::WouldBlock`]. In that case, returns
    /// `Pending`, and wakes the task when the descriptor can be read.
    ///
    /// # Errors
    /// Returns the errors of `read`, or an error if the host cannot wait.
    pub fn poll_read_with<T>(
        &self,
        context: &Context<'_>,
        read: impl FnMut(&D) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_with(READING, context, read, |_| false)
    }

    /// Reads from a byte stream like [`Registered::poll_read_with`]. `read` reads up to `space` bytes.
    ///
    /// After a read that returned fewer bytes than `space`, the next call returns `Pending` until the operating system
    /// reports new data, because another read would only cost a system call.
    #[cfg(feature = "net")]
    pub(crate) fn poll_read_bytes(
        &self,
        context: &Context<'_>,
        space: usize,
        read: impl FnMut(&D) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_with(READING, context, read, |count| (1..space).contains(count))
    }

    /// Calls `write` like [`Registered::poll_read_with`], for operations that write.
    ///
    /// # Errors
    /// Returns the errors of `write`, or an error if the host cannot wait.
    pub fn poll_write_with<T>(
        &self,
        context: &Context<'_>,
        write: impl FnMut(&D) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_with(WRITING, context, write, |_| false)
    }

    /// Calls `read` until it returns a result other than [`io::ErrorKind::WouldBlock`], and waits in between. Example:
    /// `socket.read_with(|mut socket| socket.read(&mut buffer)).await`.
    ///
    /// # Errors
    /// Returns the errors of [`Registered::poll_read_with`].
    pub async fn read_with<T>(&self, mut read: impl FnMut(&D) -> io::Result<T>) -> io::Result<T> {
        poll_fn(|context| self.poll_read_with(context, &mut read)).await
    }

    /// Calls `write` as [`Registered::read_with`] calls `read`.
    ///
    /// # Errors
    /// Returns the errors of [`Registered::poll_write_with`].
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
            // If an event arrived after the operation was tried, the loop tries the operation again.
            if side.events == seen {
                side.waiting = Some(context.waker().clone());
                drop(side);
                // If the set fails after this check, `Set::fail` wakes the task through the stored waker.
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
        // An error is expected only if other code has closed the descriptor, which also removes the descriptor from
        // epoll.
        let _ = epoll::delete(&self.descriptors.set.epoll, self.io.as_fd());
        self.descriptors.set.remove(&self.entry);
    }
}

impl Set {
    fn add(&self) -> Arc<Entry> {
        let entries = &mut *lock(&self.entries);
        entries.count = entries.count.wrapping_add(1);
        let index = entries.free.pop().unwrap_or_else(|| {
            entries.list.push(None);
            entries.list.len() - 1
        });
        let token = u64::from(entries.count) << 32 | index as u64;
        let entry = Arc::new(Entry {
            index,
            token,
            sides: Default::default(),
            is_hung_up: AtomicBool::new(false),
            has_urgent: AtomicBool::new(false),
        });
        entries.list[index] = Some(entry.clone());
        entry
    }

    fn remove(&self, entry: &Entry) {
        let entries = &mut *lock(&self.entries);
        entries.list[entry.index] = None;
        entries.free.push(entry.index);
    }

    /// Wakes the tasks that wait for ready descriptors.
    ///
    /// If several descriptors were ready, lets the woken tasks run and then calls epoll again, because waiting through
    /// the host takes several system calls.
    async fn wake_while_busy(&self) -> io::Result<()> {
        while self.wake_ready()? > 1 {
            for _ in 0..TURNS {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Wakes the tasks that wait for ready descriptors, and returns the number of these descriptors.
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
        let index = usize::try_from(token & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let entry = lock(&self.entries).list.get(index).cloned().flatten();
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

    /// Records that waiting for the set has failed, and wakes all waiting tasks, which then return the error.
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
    /// Records that no data is left to read, unless an event arrived after the read began. `seen` is the number of
    /// events at that time.
    ///
    /// After the peer has closed its side, or has sent urgent data, the operating system may report no further events.
    /// In these cases, the side is not marked as drained, so that the next read is tried.
    fn drained(&self, side: &Mutex<Side>, seen: u64) {
        let ends = [&self.is_hung_up, &self.has_urgent];
        let mut side = lock(side);
        side.is_drained =
            side.events == seen && !ends.iter().any(|flag| flag.load(Ordering::Relaxed));
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
