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
    time::Duration,
};

use async_ffi::FfiFuture;
use tremor_abi::host::{Interest, Job, LogLevel, MetricKind};

use super::descriptors;
use crate::lock::lock;

/// How long to wait for a file descriptor before looking whether something else has happened.
const READINESS_SLICE: Duration = Duration::from_millis(10);

pub(super) struct World(Mutex<State>);

impl Default for World {
    fn default() -> Self {
        Self(Mutex::new(State {
            monotonic_ns: 500_000_000,
            wall_ahead_ns: 500_000_000,
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
    /// Whether time passes only where the test says so, as long as a file descriptor is waited for.
    pub(super) holds_time: bool,
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
        let is_held = !descriptors.is_empty() && self.lock().holds_time;
        let next_timer = self.next_timer().filter(|_| !is_held);
        if !descriptors.is_empty() {
            let patience = if next_timer.is_some() { Duration::ZERO } else { READINESS_SLICE };
            let ready = descriptors::poll(&descriptors, patience);
            if ready.iter().any(|&ready| ready) {
                let ready = |descriptor| {
                    descriptors.iter().zip(&ready).any(|(&(d, _), &ready)| d == descriptor && ready)
                };
                self.end_waits(
                    |cause| matches!(cause, Cause::Descriptor(descriptor, _) if ready(descriptor)),
                );
                return Step::Worked;
            }
        }
        match next_timer {
            Some(deadline) => {
                self.advance_to(deadline);
                Step::Worked
            }
            None if descriptors.is_empty() && wakeup.wait(patience) => Step::Woken,
            None => Step::Waited,
        }
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

    pub(super) fn advance_to(&self, time_ns: u64) {
        let now_ns = {
            let mut state = self.lock();
            state.monotonic_ns = state.monotonic_ns.max(time_ns);
            state.monotonic_ns
        };
        self.end_waits(|cause| matches!(cause, Cause::Time(deadline) if deadline <= now_ns));
    }

    fn next_timer(&self) -> Option<u64> {
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

    fn end_waits(&self, over: impl Fn(Cause) -> bool) {
        let mut wakers = Vec::new();
        for wait in &mut self.lock().waits {
            if over(wait.cause) {
                wait.over = true;
                wakers.extend(wait.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The future was woken.
    Woken,
    /// Something else was done.
    Worked,
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
        time::Duration,
    };

    use super::{Step, Wakeup};
    use crate::testing::TestHost;

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
}
