//! The executor: the one place that knows async-std, and what async-std stands on. Replacing it is a
//! change in this file.
//! `docs/decisions/0002-async-std.md` says why it is what it is.

pub(crate) mod net;

use std::{
    cell::RefCell,
    convert::Infallible,
    future::Future,
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_channel::{Receiver, Sender};

/// Runs a future to its end on this thread. It runs whatever the executor's threads do.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    async_std::task::block_on(future)
}

/// A task that runs on its own; awaiting it gives its result. Dropping it detaches it.
#[must_use = "a task that nobody waits for should be `detach`ed"]
pub struct Task<T>(async_std::task::JoinHandle<T>);

impl<T> Task<T> {
    /// Lets the task run without anybody waiting for it.
    pub fn detach(self) {}
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// Runs a future on the executor's threads, under a name that debuggers show.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    future: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    let builder = async_std::task::Builder::new().name(name.into());
    match builder.spawn(future) {
        Ok(handle) => Task(handle),
        Err(error) => unreachable!("async-std starts tasks without asking anybody: {error}"),
    }
}

/// Threads of the executor that stand in for those that are blocked.
#[derive(Default)]
pub(crate) struct StandIns {
    count: usize,
    /// A thread that is to go, until it has gone.
    leaves: Option<async_global_executor::Task<bool>>,
}

impl StandIns {
    /// Has so many of them, as far as the executor may have more threads. They are there at once,
    /// and go one by one. Says how many there are.
    ///
    /// Not to be called by a thread of the executor.
    pub(crate) fn set(&mut self, wanted: usize) -> usize {
        if self.leaves.as_ref().is_some_and(async_global_executor::Task::is_finished) {
            (self.leaves, self.count) = (None, self.count.saturating_sub(1));
        }
        if wanted > self.count {
            let more = async_global_executor::spawn_more_threads(wanted - self.count);
            match async_io::block_on(more) {
                Ok(more) => self.count += more,
                Err(error) => tracing::warn!(%error, "the system gives the executor no thread"),
            }
        } else if wanted < self.count && self.leaves.is_none() {
            // Whichever thread takes this up: one that is blocked does not.
            self.leaves = Some(async_global_executor::stop_thread());
        }
        self.count
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        if let Some(leaves) = self.leaves.take() {
            leaves.detach();
        }
    }
}

/// How many tasks may run at the same time.
pub fn processors() -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    // What the executor goes by.
    let threads = std::env::var("ASYNC_STD_THREAD_COUNT").ok();
    threads.and_then(|threads| threads.parse().ok()).map_or(available, |set| available.min(set))
}

/// Runs work that may block on a thread that is there for that.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    Task(async_std::task::spawn_blocking(work))
}

/// The results of all futures, in their order, once the last is ready.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| Some(Box::pin(future))).collect();
    let mut results: Vec<_> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            let polled = future.as_mut().map(|future| future.as_mut().poll(context));
            if let Some(Poll::Ready(value)) = polled {
                (*future, *result) = (None, Some(value));
            }
        }
        if futures.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Asks the executor for a sign of life, and not again before it has given that: a process that hangs has one
/// task more for it, however often it is asked.
#[derive(Debug, Default)]
pub(crate) struct Pulse(RefCell<Option<Receiver<Infallible>>>);

impl Pulse {
    /// Whether it gives one within this time.
    pub(crate) async fn comes(&self, within: Duration) -> bool {
        self.comes_by(within, |sign| spawn("responds", async move { drop(sign) }).detach()).await
    }

    /// The same from what `ask` leads to: the sign is that its argument is dropped.
    async fn comes_by(&self, within: Duration, ask: impl FnOnce(Sender<Infallible>)) -> bool {
        let asked = self.0.borrow().clone().filter(|asked| !asked.is_closed());
        let sign = asked.unwrap_or_else(|| {
            let (sender, receiver) = async_channel::bounded(1);
            ask(sender);
            self.0.replace(Some(receiver.clone()));
            receiver
        });
        let comes = async {
            _ = sign.recv().await;
            true
        };
        first(comes, async {
            sleep(within).await;
            false
        })
        .await
    }
}

/// Waits.
pub async fn sleep(duration: Duration) {
    async_io::Timer::after(duration).await;
}

/// A timer that is set again and again.
#[derive(Debug)]
pub struct Alarm {
    timer: async_io::Timer,
    at: Option<Instant>,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { timer: async_io::Timer::never(), at: None }
    }
}

impl Alarm {
    /// Ready once it is `at`. It is set anew only where that is another time than before.
    pub fn poll(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<()> {
        if self.at != Some(at) {
            self.timer.set_at(at);
            self.at = Some(at);
        }
        let polled = Pin::new(&mut self.timer).poll(context).map(drop);
        if polled.is_ready() {
            self.at = None;
        }
        polled
    }
}

/// The point in time after this duration, or after a day where it is longer: those who wait for it
/// look again.
pub fn after(duration: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_hours(24);
    Instant::now() + duration.min(LONGEST)
}

/// A file descriptor that is waited for again and again: it is registered with the operating system once.
#[derive(Debug)]
pub struct Watched {
    io: Arc<async_io::Async<OwnedFd>>,
    // `Async::poll_readable` wakes the waker that it has where another comes, and FFI contexts always bring
    // another: a task that polls twice would wake itself for ever. These put the new one in its place.
    readable: Option<async_io::ReadableOwned<OwnedFd>>,
    writable: Option<async_io::WritableOwned<OwnedFd>>,
}

impl Watched {
    /// Registers a descriptor.
    ///
    /// # Errors
    /// Where the operating system cannot wait for this kind of file.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let io = Arc::new(async_io::Async::new_nonblocking(descriptor)?);
        Ok(Self { io, readable: None, writable: None })
    }

    /// Ready when a read would not block.
    ///
    /// # Errors
    /// The operating system's.
    pub fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, readable, .. } = self;
        let wait = readable.get_or_insert_with(|| io.clone().readable_owned());
        let polled = Pin::new(wait).poll(context);
        if polled.is_ready() {
            *readable = None;
        }
        polled
    }

    /// Ready when a write would not block.
    ///
    /// # Errors
    /// The operating system's.
    pub fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, writable, .. } = self;
        let wait = writable.get_or_insert_with(|| io.clone().writable_owned());
        let polled = Pin::new(wait).poll(context);
        if polled.is_ready() {
            *writable = None;
        }
        polled
    }
}

/// Lets other tasks have their turn.
pub async fn yield_now() {
    async_std::task::yield_now().await;
}

/// The result of whichever future is ready first; the other is dropped.
pub async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context),
        ready @ Poll::Ready(_) => ready,
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::unix::net::UnixStream,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Wake, Waker},
    };

    use std::time::Duration;

    use super::{Pulse, StandIns, Watched, all, block_on, spawn};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_descriptor_that_is_asked_for_again_wakes_nothing_before_it_is_ready() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut watched = Watched::new(one.into()).unwrap();
        let woken = Arc::<Woken>::default();
        for _ in 0..10 {
            // As a context of the boundary does, each brings another waker of the same task.
            let count = Arc::new(Through(woken.clone()));
            let waker = Waker::from(count);
            assert!(watched.poll_readable(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        for round in 0..3 {
            other.write_all(&[round]).unwrap();
            block_on(std::future::poll_fn(|context| watched.poll_readable(context))).unwrap();
        }
    }

    struct Through(Arc<Woken>);

    impl Wake for Through {
        fn wake(self: Arc<Self>) {
            self.0.clone().wake();
        }
    }

    #[test]
    fn stand_ins_come_as_far_as_they_may_and_go_again() {
        // The executor begins with the first task.
        block_on(spawn("first", async {}));
        let mut stand_ins = StandIns::default();
        assert_eq!(stand_ins.set(1), 1);
        let most = stand_ins.set(usize::MAX);
        assert!(most > 1, "at least four times as many threads as before");
        assert_eq!(stand_ins.set(usize::MAX), most);
        // One after the other, each as soon as it has nothing to do.
        while stand_ins.set(0) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(stand_ins.set(1), 1);
    }

    #[test]
    fn a_sign_of_life_is_asked_for_once_until_it_comes() {
        let (pulse, mut asked) = (Pulse::default(), Vec::new());
        let (soon, late) = (Duration::from_millis(1), Duration::from_mins(10));
        for _ in 0..3 {
            assert!(!block_on(pulse.comes_by(soon, |sign| asked.push(sign))));
        }
        assert_eq!(asked.len(), 1);
        asked.clear();
        assert!(block_on(pulse.comes_by(late, drop)));
        assert!(block_on(pulse.comes(late)));
    }

    #[test]
    fn the_results_of_several_futures_are_in_their_order() {
        let late = |number: u8| async move {
            for _ in number..3 {
                super::yield_now().await;
            }
            number
        };
        assert_eq!(block_on(all([0, 1, 2, 3].map(late))), [0, 1, 2, 3]);
        let none: [std::future::Ready<u8>; 0] = [];
        assert!(block_on(all(none)).is_empty());
    }
}
