//! The executor: the one place that knows async-std, and what async-std stands on. Replacing it is a
//! change in this module. `docs/decisions/0002-async-std.md` says why it is what it is.
//!
//! Tasks run on threads that wait for file descriptors themselves. Time passes elsewhere, so that
//! it does whatever plugins do with these threads: timers are async-std's, with a thread of their own.

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
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_channel::{Receiver, Sender};
use async_global_executor::GlobalExecutorConfig;

/// Runs a future to its end on this thread. It runs whatever the executor's threads do.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static ASYNC_STD: Once = Once::new();
    // It has threads for tasks, which it gets none of.
    ASYNC_STD.call_once(|| {
        let one = GlobalExecutorConfig::default().with_min_threads(1).with_max_threads(1);
        async_global_executor::init_with_config(one.with_thread_name_fn(|| "timers".to_owned()));
    });
    async_std::task::block_on(future)
}

/// A task that runs on its own; awaiting it gives its result. Dropping it detaches it.
#[must_use = "a task that nobody waits for should be `detach`ed"]
pub struct Task<T>(Option<async_task::Task<T>>);

impl<T> Task<T> {
    /// Lets the task run without anybody waiting for it.
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

/// Runs a future on the executor's threads.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Task(Some(threads::spawn(future)))
}

/// Threads of the executor that stand in for those that are blocked.
#[derive(Default)]
pub(crate) struct StandIns {
    count: usize,
    /// A thread that is to go, until it has gone.
    leaves: Option<async_task::Task<()>>,
}

impl StandIns {
    /// Has so many of them, as far as the executor may have more threads. They are there at once,
    /// and go one by one. Says how many there are.
    ///
    /// Not to be called by a thread of the executor.
    pub(crate) fn set(&mut self, wanted: usize) -> usize {
        if self.leaves.as_ref().is_some_and(async_task::Task::is_finished) {
            (self.leaves, self.count) = (None, self.count.saturating_sub(1));
        }
        if wanted > self.count {
            match threads::more(wanted - self.count) {
                Ok(more) => self.count += more,
                Err(error) => tracing::warn!(%error, "the system gives the executor no thread"),
            }
        } else if wanted < self.count && self.leaves.is_none() {
            // Whichever thread takes this up: one that is blocked does not.
            self.leaves = Some(threads::fewer());
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
    available().min(threads())
}

/// How many threads run tasks, but for those that stand in for others: `TREMOR_THREADS`, or as many as there are
/// processors.
fn threads() -> usize {
    let set = std::env::var("TREMOR_THREADS").ok();
    set.and_then(|set| set.parse().ok()).filter(|set| *set > 0).unwrap_or_else(available)
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of pieces of blocking work that no thread has taken yet.
static UNBLOCKED_LATER: AtomicUsize = AtomicUsize::new(0);

/// Maximum number of threads for blocking work.
const BLOCKING_THREADS: NonZeroUsize = NonZeroUsize::new(500).unwrap();

/// Runs work that may block on a thread that is there for that. Where the system has no thread for it now, the work
/// waits for one.
pub fn spawn_blocking(work: impl FnOnce() + Send + 'static) {
    UNBLOCKED_LATER.fetch_add(1, Ordering::Relaxed);
    let work = move || {
        UNBLOCKED_LATER.fetch_sub(1, Ordering::Relaxed);
        work();
    };
    blocking::unblock(work).detach();
}

/// Asks the system again for threads for blocking work, if some waits for one. `blocking` lowers its number of threads
/// permanently where the system refuses one, and asks for another only with further work.
///
/// `tick` is the number of earlier calls. The more requests are not answered, the fewer calls make another, so that
/// those of hours are a few hundred.
pub(crate) fn retry_blocking_threads(tick: usize) {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let requests = REQUESTS.load(Ordering::Relaxed);
    if UNBLOCKED_LATER.load(Ordering::Relaxed) > 0 && tick.is_multiple_of(requests + 1) {
        blocking::set_max_blocking_threads(BLOCKING_THREADS);
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        blocking::unblock(|| _ = REQUESTS.fetch_sub(1, Ordering::Relaxed)).detach();
    }
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
        self.comes_by(within, |sign| spawn(async move { drop(sign) }).detach()).await
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
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Arc, Barrier, Mutex,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::{Context, Wake, Waker},
    };

    use std::time::Duration;

    use super::{Interest, Pulse, StandIns, all, attend, block_on, spawn, threads, watch};

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
        let mut watched = watch(one.into(), Interest::Readable).unwrap();
        let woken = Arc::<Woken>::default();
        for _ in 0..10 {
            // As a context of the boundary does, each brings another waker of the same task.
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
    fn what_a_task_panics_with_comes_to_those_who_wait_for_it_and_to_no_other_task() {
        let panics = spawn(async { panic!("on purpose") });
        let caught = catch_unwind(AssertUnwindSafe(|| block_on(panics)));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"on purpose"));
        (0..100).for_each(|_| block_on(spawn(async {})));
    }

    #[test]
    fn a_task_that_nobody_waits_for_runs_to_its_end() {
        let (sender, ends) = async_channel::bounded(1);
        let task = spawn(async move { sender.send("ended").await });
        drop(task);
        assert_eq!(block_on(ends.recv()), Ok("ended"));
    }

    /// Tests that have stand-ins, or need all threads: one at a time.
    static ALL_THREADS: Mutex<()> = Mutex::new(());

    #[test]
    fn descriptors_are_seen_to_while_tasks_hold_all_threads_but_one() {
        let _alone = ALL_THREADS.lock();
        let mut stand_ins = StandIns::default();
        assert_eq!(stand_ins.set(1), 1);
        let (held, go) = (mpsc::channel(), Arc::new(Barrier::new(threads() + 1)));
        let holding: Vec<_> = (0..threads())
            .map(|_| {
                let (held, go) = (held.0.clone(), go.clone());
                spawn(async move {
                    held.send(()).unwrap();
                    go.wait();
                })
            })
            .collect();
        holding.iter().for_each(|_| held.1.recv().unwrap());
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut watched = watch(one.into(), Interest::Readable).unwrap();
        let reads = spawn(async move {
            std::future::poll_fn(|context| watched.poll_ready(context)).await.unwrap();
        });
        other.write_all(b"1").unwrap();
        // As the watchdog does.
        let attends = async {
            loop {
                attend();
                super::yield_now().await;
            }
        };
        block_on(super::first(reads, attends));
        go.wait();
        holding.into_iter().for_each(block_on);
        while stand_ins.set(0) > 0 {
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
    fn a_waker_that_panics_takes_no_thread_with_it() {
        let (called, calls) = mpsc::channel();
        let waker = Waker::from(Arc::new(Panics(called)));
        let pair = || {
            let (one, other) = UnixStream::pair().unwrap();
            (watch(one.into(), Interest::Readable).unwrap(), other)
        };
        // Several times as often as there may be threads.
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
    fn stand_ins_come_as_far_as_they_may_and_go_again() {
        let _alone = ALL_THREADS.lock();
        // The executor begins with the first task.
        block_on(spawn(async {}));
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
        while stand_ins.set(0) > 0 {
            std::thread::yield_now();
        }
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
