//! The executor. No other module uses async-std or the crates that it is built on, so only this module has to change if
//! the executor is replaced. `docs/decisions/0002-async-std.md` gives the reasons for the design.
//!
//! The threads that run tasks also wait for file descriptors. Timers are those of async-io, which has a thread of its
//! own for them. A timer is therefore due in time even if plugins block all threads of the executor, and so wakes a
//! thread that waits for a future with [`block_on`]. A task that it wakes waits for a thread of the executor.

#[cfg(test)]
pub(crate) mod alone;
pub(crate) mod net;
mod readiness;
mod ready;
mod threads;

pub use readiness::{Interest, Watched};
pub(crate) use threads::attend;
pub use threads::watch;
pub use tremor_pdk::yield_now;

use std::{
    cell::RefCell,
    convert::Infallible,
    future::Future,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use async_channel::{Receiver, Sender};
use async_global_executor::GlobalExecutorConfig;

/// Runs a future to its end on the calling thread, independently of the threads of the executor.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static ASYNC_STD: Once = Once::new();
    // async-std also starts threads for tasks. No task runs on these threads, so one thread is enough.
    ASYNC_STD.call_once(|| {
        // The first timer opens the descriptors of async-io. Later, there may be none left in the process, and async-io
        // would panic at each attempt.
        let mut first = async_io::Timer::after(Duration::from_hours(1));
        let _pending = Pin::new(&mut first).poll(&mut Context::from_waker(Waker::noop()));
        let one = GlobalExecutorConfig::default().with_min_threads(1).with_max_threads(1);
        async_global_executor::init_with_config(one.with_thread_name_fn(|| "timers".to_owned()));
    });
    async_std::task::block_on(future)
}

/// A task that runs in the background. Awaiting the value returns the result of the task. Dropping the value does not
/// end the task.
#[must_use = "a task that nobody waits for should be `detach`ed"]
pub struct Task<T>(Option<async_task::Task<T>>);

impl<T> Task<T> {
    /// Lets the task run without waiting for it.
    pub fn detach(self) {}
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(async_task::Task::detach);
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().map_or(Poll::Pending, |task| Pin::new(task).poll(context))
    }
}

/// Runs a future on the threads of the executor.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    #[cfg(test)]
    if alone::is_running() {
        return Task(Some(alone::spawn(future)));
    }
    Task(Some(threads::spawn(future)))
}

/// Threads of the executor that replace blocked ones.
#[derive(Default)]
pub(crate) struct Replacements {
    count: usize,
    /// A request for one thread to end; `None` if no request is open.
    ending: Option<async_task::Task<()>>,
}

impl Replacements {
    /// Adjusts the number of replacement threads to `wanted`, as far as the limit of threads permits. Returns the new
    /// number.
    ///
    /// Threads are started immediately and end one by one, so the number may take several calls to fall. Must not be
    /// called by a thread of the executor.
    pub(crate) fn set(&mut self, wanted: usize) -> usize {
        if self.ending.as_ref().is_some_and(async_task::Task::is_finished) {
            (self.ending, self.count) = (None, self.count.saturating_sub(1));
        }
        if wanted > self.count {
            match threads::start_more(wanted - self.count) {
                Ok(more) => self.count += more,
                Err(error) => tracing::warn!(%error, "cannot start a thread of the executor"),
            }
        } else if wanted < self.count && self.ending.is_none() {
            // Any idle thread takes the request; a blocked thread cannot.
            self.ending = Some(threads::end_one());
        }
        self.count
    }
}

impl Drop for Replacements {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.take() {
            ending.detach();
        }
    }
}

/// Returns the number of tasks that can run at the same time: the number of processors or of the executor's initial
/// threads, whichever is less.
pub fn processors() -> usize {
    available().min(threads())
}

/// Returns the initial number of threads that run tasks: the value of `TREMOR_THREADS`, or the number of processors.
/// Replacement threads are not included.
fn threads() -> usize {
    threads_set().ok().flatten().unwrap_or_else(available)
}

/// Checks the value of `TREMOR_THREADS`. An invalid value has no effect, so a program has to report it.
///
/// # Errors
/// The value is not a number from 1.
pub fn check_threads() -> Result<(), InvalidThreads> {
    threads_set().map(drop)
}

/// An invalid value of the variable `TREMOR_THREADS`.
#[derive(Debug, thiserror::Error)]
#[error("invalid variable `TREMOR_THREADS` `{0}`: expected a number of threads from 1")]
pub struct InvalidThreads(String);

/// Returns the value of `TREMOR_THREADS`, or `None` if the variable is not set or empty.
fn threads_set() -> Result<Option<usize>, InvalidThreads> {
    let set = std::env::var_os("TREMOR_THREADS").unwrap_or_default();
    let set = set.to_string_lossy();
    match set.parse() {
        _ if set.is_empty() => Ok(None),
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(InvalidThreads(set.into_owned())),
    }
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of pieces of blocking work that no thread has started yet.
static WAITING_WORK: AtomicUsize = AtomicUsize::new(0);

/// Maximum number of threads for blocking work.
const BLOCKING_THREADS: NonZeroUsize = NonZeroUsize::new(500).unwrap();

/// Runs blocking work on a separate thread. If the system has no thread available, the work waits for one.
pub fn spawn_blocking(work: impl FnOnce() + Send + 'static) {
    WAITING_WORK.fetch_add(1, Ordering::Relaxed);
    let work = move || {
        WAITING_WORK.fetch_sub(1, Ordering::Relaxed);
        work();
    };
    blocking::unblock(work).detach();
}

/// Asks the system for a thread again, if blocking work waits for one.
///
/// The crate `blocking` permanently lowers its limit of threads if the system refuses a thread, and asks for another
/// thread only when further work is added.
///
/// `tick` is the number of earlier calls of this function. The more requests have failed, the fewer calls make a
/// request, so that only a few hundred requests are made in several hours.
pub(crate) fn retry_blocking_threads(tick: usize) {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let requests = REQUESTS.load(Ordering::Relaxed);
    if WAITING_WORK.load(Ordering::Relaxed) > 0 && tick.is_multiple_of(requests + 1) {
        blocking::set_max_blocking_threads(BLOCKING_THREADS);
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        blocking::unblock(|| _ = REQUESTS.fetch_sub(1, Ordering::Relaxed)).detach();
    }
}

/// Waits for all futures, and returns their results in the order of the futures.
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

/// Checks whether the executor still runs tasks, by spawning a task.
///
/// At most one such task is outstanding at any time, so a process that hangs has only one additional task.
#[derive(Debug, Default)]
pub(crate) struct Pulse(RefCell<Option<Receiver<Infallible>>>);

impl Pulse {
    /// Returns whether the executor runs a task within this time.
    pub(crate) async fn responds(&self, within: Duration) -> bool {
        self.responds_to(within, |sign| spawn(async move { drop(sign) }).detach()).await
    }

    /// Returns whether the sender that is passed to `ask` is dropped within this time.
    async fn responds_to(&self, within: Duration, ask: impl FnOnce(Sender<Infallible>)) -> bool {
        let pending = self.0.borrow().clone().filter(|pending| !pending.is_closed());
        let answer = pending.unwrap_or_else(|| {
            let (sender, receiver) = async_channel::bounded(1);
            ask(sender);
            self.0.replace(Some(receiver.clone()));
            receiver
        });
        let responds = async {
            _ = answer.recv().await;
            true
        };
        first(responds, async {
            sleep(within).await;
            false
        })
        .await
    }
}

/// Waits for `duration`.
pub async fn sleep(duration: Duration) {
    async_io::Timer::after(duration).await;
}

/// A reusable timer.
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
    /// Completes at the time `at`. The timer is re-armed only if `at` differs from that of the previous call.
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

/// Returns the result of the future that completes first, and drops the other one.
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
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Arc, Barrier, Mutex,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::{Context, Wake, Waker},
    };

    use std::time::Duration;

    use super::{Interest, Pulse, Replacements, all, attend, block_on, spawn, threads, watch};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn repeated_polls_do_not_wake_before_descriptor_is_ready() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut watched = watch(one.into(), Interest::Readable).unwrap();
        let woken = Arc::<Woken>::default();
        for _ in 0..10 {
            // Every context has, as in calls through the plugin ABI, a new waker, although the task is the same.
            let count = Arc::new(Through(woken.clone()));
            let waker = Waker::from(count);
            assert!(watched.poll_ready(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        for round in 0..3 {
            other.write_all(&[round]).unwrap();
            block_on(std::future::poll_fn(|context| watched.poll_ready(context))).unwrap();
        }
    }

    struct Through(Arc<Woken>);

    impl Wake for Through {
        fn wake(self: Arc<Self>) {
            self.0.clone().wake();
        }
    }

    #[test]
    fn panic_of_task_reaches_only_its_awaiter() {
        let panics = spawn(async { panic!("on purpose") });
        let caught = catch_unwind(AssertUnwindSafe(|| block_on(panics)));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"on purpose"));
        (0..100).for_each(|_| block_on(spawn(async {})));
    }

    #[test]
    fn detached_task_runs_to_its_end() {
        let (sender, ends) = async_channel::bounded(1);
        let task = spawn(async move { sender.send("ended").await });
        drop(task);
        assert_eq!(block_on(ends.recv()), Ok("ended"));
    }

    /// Lock of tests that use replacement threads or need all threads, so that these tests run one at a time.
    static ALL_THREADS: Mutex<()> = Mutex::new(());

    #[test]
    fn descriptors_are_polled_while_other_threads_are_blocked() {
        let _alone = ALL_THREADS.lock();
        let mut replacements = Replacements::default();
        assert_eq!(replacements.set(1), 1);
        let (blocked, go) = (mpsc::channel(), Arc::new(Barrier::new(threads() + 1)));
        let blocking: Vec<_> = (0..threads())
            .map(|_| {
                let (blocked, go) = (blocked.0.clone(), go.clone());
                spawn(async move {
                    blocked.send(()).unwrap();
                    go.wait();
                })
            })
            .collect();
        blocking.iter().for_each(|_| blocked.1.recv().unwrap());
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut watched = watch(one.into(), Interest::Readable).unwrap();
        let reads = spawn(async move {
            std::future::poll_fn(|context| watched.poll_ready(context)).await.unwrap();
        });
        other.write_all(b"1").unwrap();
        // The watchdog calls `attend` periodically too.
        let attends = async {
            loop {
                attend();
                super::yield_now().await;
            }
        };
        block_on(super::first(reads, attends));
        go.wait();
        blocking.into_iter().for_each(block_on);
        while replacements.set(0) > 0 {
            std::thread::yield_now();
        }
    }

    struct Panics(mpsc::Sender<()>);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
            panic!("on purpose");
        }
    }

    #[test]
    fn panicking_waker_ends_no_thread() {
        let (called, calls) = mpsc::channel();
        let waker = Waker::from(Arc::new(Panics(called)));
        let pair = || {
            let (one, other) = UnixStream::pair().unwrap();
            (watch(one.into(), Interest::Readable).unwrap(), other)
        };
        // Run more tasks than there can be threads, so that no thread would be left if each panic ended a thread.
        for _ in 0..16 * super::threads() {
            let (mut watched, mut other) = pair();
            assert!(watched.poll_ready(&mut Context::from_waker(&waker)).is_pending());
            other.write_all(b"1").unwrap();
            calls.recv().unwrap();
        }
        let (mut watched, mut other) = pair();
        let reads = spawn(async move {
            std::future::poll_fn(|context| watched.poll_ready(context)).await.unwrap();
        });
        other.write_all(b"1").unwrap();
        block_on(reads);
    }

    #[test]
    fn replacement_threads_start_up_to_limit_and_end() {
        let _alone = ALL_THREADS.lock();
        // Spawning the first task starts the executor.
        block_on(spawn(async {}));
        let mut replacements = Replacements::default();
        assert_eq!(replacements.set(1), 1);
        let most = replacements.set(usize::MAX);
        assert!(most > 1, "the limit permits replacement threads");
        assert_eq!(replacements.set(usize::MAX), most);
        // Threads end one after the other, as soon as they are idle.
        while replacements.set(0) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(replacements.set(1), 1);
        while replacements.set(0) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn only_one_probe_is_outstanding() {
        let (pulse, mut asked) = (Pulse::default(), Vec::new());
        let (soon, late) = (Duration::from_millis(1), Duration::from_mins(10));
        for _ in 0..3 {
            assert!(!block_on(pulse.responds_to(soon, |sign| asked.push(sign))));
        }
        assert_eq!(asked.len(), 1);
        asked.clear();
        assert!(block_on(pulse.responds_to(late, drop)));
        assert!(block_on(pulse.responds(late)));
    }

    #[test]
    fn results_are_in_order_of_futures() {
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
