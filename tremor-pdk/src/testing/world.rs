//! What there is besides the code under test: its work, its timers, and what it said.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use async_ffi::FfiFuture;
use tremor_abi::host::{Interest, Job, LogLevel, MetricKind};

use super::descriptors;
use crate::lock::lock;

/// Longest wait for file descriptors before the world checks whether something else has happened.
const READINESS_SLICE: Duration = Duration::from_millis(10);

/// Real time without a sign of a peer after which a timer ends early, unless a test sets another.
const PATIENCE: Duration = Duration::from_secs(1);

/// Divides the patience for further timers while a peer stays silent, so that a silent peer costs the whole
/// patience once.
const SILENT_PEER: u32 = 50;

pub(super) struct World(Mutex<State>);

impl Default for World {
    fn default() -> Self {
        Self(Mutex::new(State {
            monotonic_ns: 500_000_000,
            wall_ahead_ns: 500_000_000,
            patience: PATIENCE,
            ..State::default()
        }))
    }
}

#[derive(Default)]
pub(super) struct State {
    /// The time that passes, which timers go by.
    pub(super) monotonic_ns: u64,
    /// Difference between the clock that stamps events and `monotonic_ns`, modulo 2^64.
    wall_ahead_ns: u64,
    /// Real time that peers get to make an awaited file descriptor ready, before a timer ends early.
    pub(super) patience: Duration,
    /// Real time of waits since an awaited descriptor was last ready; reduced when a timer ends early.
    silence: Duration,
    /// Number of steps that had to wait: for a descriptor that was not ready, for a timer, or for a thread.
    pub(super) waited: u64,
    pub(super) folder: String,
    pub(super) log: Vec<(LogLevel, String)>,
    pub(super) metrics: Vec<Metric>,
    pub(super) stop_requests: Vec<String>,
    pub(super) connections_lost: u64,
    /// Bytes that components have borrowed.
    pub(super) memory: usize,
    /// Bytes that they may borrow; `None` for any number.
    pub(super) memory_limit: Option<usize>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) tasks: Vec<FfiFuture<()>>,
    wakes_tasks: Arc<WakesTasks>,
    waits: Vec<Wait>,
    next_wait: u64,
}

pub(super) struct Metric {
    pub(super) kind: MetricKind,
    pub(super) name: String,
    pub(super) value: f64,
}

impl State {
    pub(super) fn now_ns(&self) -> u64 {
        self.monotonic_ns.wrapping_add(self.wall_ahead_ns)
    }

    pub(super) fn set_now_ns(&mut self, now_ns: u64) {
        self.wall_ahead_ns = now_ns.wrapping_sub(self.monotonic_ns);
    }

    /// Whether anything waits for time or for a file descriptor.
    pub(super) fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }
}

/// What a future may wait for.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    /// The clock, in ns since the epoch.
    Time(u64),
    /// A file descriptor.
    Descriptor(i32, Interest),
}

struct Wait {
    number: u64,
    cause: Cause,
    over: bool,
    waker: Option<Waker>,
}

impl World {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Does the next of what there is to do, in this order: what has been woken already; a
    /// blocking job; tasks; a file descriptor that is ready; the next timer. Returns when there
    /// may be something new for the future that `wakeup` belongs to, or after `patience` with nothing
    /// to do.
    ///
    /// While a file descriptor is awaited, real time passes, because a peer needs it to answer. If only timers are
    /// awaited, the clock jumps to the next one.
    pub(super) fn step(&self, wakeup: &Arc<Wakeup>, patience: Option<Duration>) -> Step {
        if wakeup.take() {
            return Step::Woken;
        }
        let job = self.lock().jobs.pop_front();
        if let Some(job) = job {
            job.run();
            return Step::Worked;
        }
        self.poll_tasks(wakeup);
        if wakeup.take() {
            return Step::Woken;
        }
        // What a task has asked for just now comes before any time passes.
        if !self.lock().jobs.is_empty() {
            return Step::Worked;
        }
        let descriptors = self.descriptors();
        if !descriptors.is_empty() {
            return self.wait_for_peers(&descriptors);
        }
        self.lock().waited += 1;
        match self.next_timer() {
            Some(deadline) => {
                self.advance_to(deadline);
                Step::Worked
            }
            None if wakeup.wait(patience) => Step::Woken,
            None => Step::Waited,
        }
    }

    /// Waits for descriptors, for at most [`READINESS_SLICE`]. The clock follows the real time of the wait, so that it
    /// stands exactly at the deadline of a timer that ends. A timer ends early only if no descriptor became ready
    /// within the patience.
    fn wait_for_peers(&self, descriptors: &[(i32, Interest)]) -> Step {
        let mut ready = descriptors::poll(descriptors, Duration::ZERO);
        let mut is_timer_over = false;
        if !ready.contains(&true) {
            let timer = self.next_timer();
            let (now_ns, slice) = {
                let mut state = self.lock();
                state.waited += 1;
                let now_ns = state.monotonic_ns;
                let until = |timer: u64| Duration::from_nanos(timer.saturating_sub(now_ns));
                let early = state.patience.saturating_sub(state.silence);
                let slice = timer.map_or(READINESS_SLICE, |timer| until(timer).min(early));
                (now_ns, slice.min(READINESS_SLICE))
            };
            let started = Instant::now();
            ready = descriptors::poll(descriptors, slice);
            let waited = started.elapsed();
            self.lock().silence += waited;
            let time_ns = now_ns.saturating_add(nanoseconds(waited));
            is_timer_over = self.advance_to(timer.map_or(time_ns, |timer| time_ns.min(timer)));
        }
        if ready.contains(&true) {
            self.lock().silence = Duration::ZERO;
            let ready = |descriptor| {
                descriptors.iter().zip(&ready).any(|(&(d, _), &ready)| d == descriptor && ready)
            };
            self.end_waits(
                |cause| matches!(cause, Cause::Descriptor(descriptor, _) if ready(descriptor)),
            );
            return Step::Worked;
        }
        if !is_timer_over && let Some(deadline) = self.next_timer() {
            let mut state = self.lock();
            if state.silence >= state.patience {
                state.silence = state.patience.saturating_sub(state.patience / SILENT_PEER);
                drop(state);
                is_timer_over = self.advance_to(deadline);
            }
        }
        if is_timer_over { Step::TimePassed } else { Step::Waited }
    }

    /// What a component has left with the host: tasks and work that have not ended. Those that can end
    /// without further ado are run to their end first.
    pub(super) fn left_over(&self) -> (usize, usize) {
        let wakeup = Wakeup::new();
        // So often, since one may start another, and none may do so for ever.
        for _ in 0..1_000 {
            if !matches!(self.step_without_time(&wakeup), Step::Woken | Step::Worked) {
                break;
            }
        }
        let state = self.lock();
        (state.tasks.len(), state.jobs.len())
    }

    fn step_without_time(&self, wakeup: &Arc<Wakeup>) -> Step {
        let job = self.lock().jobs.pop_front();
        if let Some(job) = job {
            job.run();
            return Step::Worked;
        }
        let before = self.lock().tasks.len();
        self.poll_tasks(wakeup);
        let is_woken = wakeup.take();
        if is_woken || self.lock().tasks.len() < before { Step::Worked } else { Step::Waited }
    }

    /// Wakes the thread that runs a future, if another thread has queued a job or a task.
    pub(super) fn wake_from_other_thread(&self) {
        let wakes_tasks = self.lock().wakes_tasks.clone();
        let wakeup = lock(&wakes_tasks.0).upgrade();
        wakeup
            .into_iter()
            .filter(|it| it.thread.id() != thread::current().id())
            .for_each(Wakeup::wake);
    }

    /// Polls every task once. What wakes one wakes the future that is run, which is this one from now on.
    fn poll_tasks(&self, wakeup: &Arc<Wakeup>) {
        let (waker, mut tasks) = {
            let state = &mut *self.lock();
            state.wakes_tasks.set(wakeup);
            (Waker::from(state.wakes_tasks.clone()), std::mem::take(&mut state.tasks))
        };
        let mut context = Context::from_waker(&waker);
        tasks.retain_mut(|task| Pin::new(task).poll(&mut context).is_pending());
        self.lock().tasks.append(&mut tasks);
    }

    /// Whether a future can be woken: it has been, or something keeps its waker or that of a task.
    pub(super) fn is_expected(&self, wakeup: &Arc<Wakeup>) -> bool {
        wakeup.is_expected() || Arc::strong_count(&self.lock().wakes_tasks) > 1
    }

    /// Sets the clock to `time_ns`, unless the clock is ahead of that. Returns `true` if a timer ended.
    pub(super) fn advance_to(&self, time_ns: u64) -> bool {
        let now_ns = {
            let mut state = self.lock();
            state.monotonic_ns = state.monotonic_ns.max(time_ns);
            state.monotonic_ns
        };
        self.end_waits(|cause| matches!(cause, Cause::Time(deadline) if deadline <= now_ns))
    }

    /// Deadline of the timer that ends next, if there is one.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let state = self.lock();
        let deadline = |wait: &Wait| match wait.cause {
            Cause::Time(deadline) if !wait.over => Some(deadline),
            _ => None,
        };
        state.waits.iter().filter_map(deadline).min()
    }

    fn descriptors(&self) -> Vec<(i32, Interest)> {
        let state = self.lock();
        let descriptor = |wait: &Wait| match wait.cause {
            Cause::Descriptor(descriptor, interest) if !wait.over => Some((descriptor, interest)),
            _ => None,
        };
        state.waits.iter().filter_map(descriptor).collect()
    }

    /// Ends the waits whose cause is `over`. Returns `true` if there was one.
    fn end_waits(&self, over: impl Fn(Cause) -> bool) -> bool {
        let (mut wakers, mut has_ended) = (Vec::new(), false);
        for wait in &mut self.lock().waits {
            if !wait.over && over(wait.cause) {
                (wait.over, has_ended) = (true, true);
                wakers.extend(wait.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        has_ended
    }
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The future was woken.
    Woken,
    /// Something else was done.
    Worked,
    /// A timer ended beside descriptors that are not ready.
    TimePassed,
    /// There was nothing to do.
    Waited,
}

/// Waits for one cause, until dropped.
pub(super) struct Waiting {
    world: Arc<World>,
    number: u64,
}

impl Waiting {
    pub(super) fn new(world: Arc<World>, cause: Cause) -> Self {
        let number = {
            let mut state = world.lock();
            let over = matches!(cause, Cause::Time(deadline) if deadline <= state.monotonic_ns);
            let number = state.next_wait;
            state.next_wait += 1;
            state.waits.push(Wait { number, cause, over, waker: None });
            number
        };
        Self { world, number }
    }
}

impl Future for Waiting {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.world.lock();
        match state.waits.iter_mut().find(|wait| wait.number == self.number) {
            Some(wait) if !wait.over => {
                wait.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.world.lock().waits.retain(|wait| wait.number != self.number);
    }
}

/// Wakes the thread that runs a test, from whichever thread.
pub(super) struct Wakeup {
    woken: AtomicBool,
    thread: Thread,
}

impl Wakeup {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(false), thread: thread::current() })
    }

    fn take(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Whether it can be woken: it has been, or something keeps its waker.
    pub(super) fn is_expected(self: &Arc<Self>) -> bool {
        self.woken.load(Ordering::Acquire) || Arc::strong_count(self) > 1
    }

    /// Only a thread of the plugin's own can help now. Whether one did.
    fn wait(&self, patience: Option<Duration>) -> bool {
        loop {
            if self.take() {
                return true;
            }
            match patience {
                None => thread::park(),
                Some(patience) => {
                    thread::park_timeout(patience);
                    return self.take();
                }
            }
        }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Wakes whichever future is run when a task is woken: a task may keep a waker for as long as it lives, and
/// outlive the future that was run when it got it.
#[derive(Default)]
struct WakesTasks(Mutex<Weak<Wakeup>>);

impl WakesTasks {
    fn set(&self, wakeup: &Arc<Wakeup>) {
        *lock(&self.0) = Arc::downgrade(wakeup);
    }
}

impl Wake for WakesTasks {
    fn wake(self: Arc<Self>) {
        let wakeup = lock(&self.0).upgrade();
        // Where none is run, all tasks are polled as soon as one is.
        wakeup.into_iter().for_each(Wakeup::wake);
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{Arc, Mutex},
        task::{Poll, Waker},
        thread,
        time::Duration,
    };

    use super::{Step, Wakeup};
    use crate::{oneshot, testing::TestHost};

    /// As a library does that waits with the waker of one poll, however often it is polled after that.
    #[test]
    fn a_task_is_woken_by_the_waker_of_any_of_its_polls() {
        let test = TestHost::new();
        let wakers = Arc::<Mutex<Vec<Waker>>>::default();
        let keeps = wakers.clone();
        let keeps = poll_fn(move |context| {
            keeps.lock().unwrap().push(context.waker().clone());
            Poll::<()>::Pending
        });
        let _task = test.host().spawn("keeps its wakers", keeps);
        let step = |run| test.0.step(run, Some(Duration::ZERO));
        // Each of these futures was run for a while, the first one twice.
        let [first, second, last] = [(); 3].map(|()| Wakeup::new());
        for run in [&first, &first, &second, &last] {
            assert_eq!(step(run), Step::Waited);
        }
        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
        assert_eq!(wakers.len(), 4);
        for (poll, waker) in wakers.iter().enumerate() {
            waker.wake_by_ref();
            assert_eq!(step(&last), Step::Woken, "by the waker of poll {poll}");
        }
    }

    /// Libraries that work on threads of their own queue jobs and tasks in this way.
    #[test]
    fn job_and_task_of_another_thread_wake_a_waiting_test() {
        for is_task in [false, true] {
            let test = TestHost::new();
            let (sender, receiver) = oneshot::channel();
            let (host, queues) = (test.host(), test.clone());
            let other = thread::spawn(move || {
                let has_waited = || queues.0.lock().waited > 0;
                while !has_waited() {
                    thread::yield_now();
                }
                if is_task {
                    Some(host.spawn("answers", async move { sender.send(7) }))
                } else {
                    drop(host.blocking(move || sender.send(7)));
                    None
                }
            });
            assert_eq!(test.block_on(receiver), Some(7));
            drop(other.join());
        }
    }
}
