//! File descriptors that stay registered: for connectors with many sockets.

use std::{
    future::poll_fn,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
};
use tremor_abi::host::Interest;

use crate::{Error, Host, Result, Task};

/// How many descriptors are seen to at a time.
const EVENTS: usize = 256;

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
                if let Err(error) = waits.wake_ready() {
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

    /// Wakes what waits for descriptors that are ready.
    fn wake_ready(&self) -> io::Result<()> {
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
            if events.len() < EVENTS {
                return Ok(());
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Descriptors")
    }
}

impl<D: AsFd + std::fmt::Debug> std::fmt::Debug for Registered<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registered").field(&self.io).finish()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{
        future::poll_fn,
        io::{Read, Write},
        os::unix::net::UnixStream,
        task::{Context, Poll, Waker},
    };

    use super::Descriptors;
    use crate::testing::TestHost;

    fn pair() -> (UnixStream, UnixStream) {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        one.set_nonblocking(true).expect("it is a socket");
        (one, other)
    }

    #[test]
    fn many_descriptors_are_waited_for_and_each_is_registered_once() {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        let pairs: Vec<_> = (0..40)
            .map(|_| {
                let (one, other) = pair();
                (descriptors.register(one).unwrap(), other)
            })
            .collect();
        for round in 0..3_u8 {
            // The last first: what is ready has nothing to do with what is waited for.
            for (_, other) in pairs.iter().rev() {
                (&*other).write_all(&[round]).unwrap();
            }
            for (one, _) in &pairs {
                let mut byte = [9];
                let read = one.read_with(|mut socket| socket.read(&mut byte));
                assert_eq!(test.block_on(read).unwrap(), 1);
                assert_eq!(byte, [round]);
            }
        }
    }

    #[test]
    fn what_was_not_ready_is_waited_for_until_it_is_and_an_end_ends_the_wait() {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        let (one, other) = pair();
        let one = descriptors.register(one).unwrap();
        let mut bytes = [0; 16];
        let late = std::thread::spawn(move || {
            (&other).write_all(b"late").unwrap();
            other
        });
        let count = test.block_on(one.read_with(|mut socket| socket.read(&mut bytes))).unwrap();
        assert_eq!(&bytes[..count], b"late");
        drop(late.join().unwrap());
        let count = test.block_on(one.read_with(|mut socket| socket.read(&mut bytes))).unwrap();
        assert_eq!(count, 0, "the other side is gone");
    }

    #[test]
    fn a_peer_that_does_not_read_is_waited_for_to_write() {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        let (one, mut other) = pair();
        let one = descriptors.register(one).unwrap();
        let mut sent = 0;
        while let Ok(count) = (&mut one.get_ref()).write(&[7; 4096]) {
            sent += count;
        }
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; sent];
            other.read_exact(&mut all).unwrap();
            other
        });
        let wrote = test.block_on(one.write_with(|mut socket| socket.write(&[8; 16]))).unwrap();
        assert_eq!(wrote, 16);
        drop(reader.join().unwrap());
    }

    #[cfg(feature = "net")]
    #[test]
    fn after_a_short_read_there_is_no_other_before_something_comes() {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        let (one, mut other) = pair();
        let one = descriptors.register(one).unwrap();
        let (mut bytes, mut reads) = ([0; 16], 0);
        let mut read = |context: &Context<'_>| {
            one.poll_read_bytes(context, 16, |mut socket| {
                reads += 1;
                socket.read(&mut bytes)
            })
        };
        let mut once = |is_waited_for| {
            if is_waited_for {
                return test.block_on(poll_fn(|context| read(context))).ok();
            }
            match read(&Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result.ok(),
                Poll::Pending => None,
            }
        };
        assert_eq!(once(false), None);
        other.write_all(b"short").unwrap();
        assert_eq!(once(true), Some(5));
        assert_eq!((once(false), once(false)), (None, None));
        // One that fills the space may have left something.
        other.write_all(&[0; 20]).unwrap();
        assert_eq!((once(true), once(false)), (Some(16), Some(4)));
        assert_eq!(once(false), None);
        drop(other);
        assert_eq!((once(true), once(false)), (Some(0), Some(0)));
        // One before anything came, and one for each that brought something or the end.
        assert_eq!(reads, 6);
    }

    #[test]
    fn a_descriptor_in_the_place_of_another_hears_nothing_of_it() {
        let test = TestHost::new();
        let descriptors = Descriptors::new(&test.host()).unwrap();
        let (one, other) = pair();
        drop(descriptors.register(one).unwrap());
        drop(other);
        let (one, mut other) = pair();
        let one = descriptors.register(one).unwrap();
        other.write_all(b"x").unwrap();
        let mut byte = [0];
        let read = one.read_with(|mut socket| socket.read(&mut byte));
        assert_eq!(test.block_on(read).unwrap(), 1);
        let file =
            std::fs::File::open(env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml").unwrap();
        assert!(descriptors.register(file).is_err(), "a regular file is always ready");
    }
}
