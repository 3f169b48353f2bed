//! State of a test host: tasks, blocking work, timers, clocks, and the log lines, metrics and requests of components.

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
use crate::lock;

/// Maximum time of one wait for file descriptors, after which jobs and tasks are checked.
const READINESS_SLICE: Duration = Duration::from_millis(10);

/// Default of [`TestHost::set_patience`](super::TestHost::set_patience).
const PATIENCE: Duration = Duration::from_secs(1);

/// Divisor of the patience for further timers while a peer stays silent. A test waits the whole patience for the first
/// timer, and a fiftieth of the patience for each further timer.
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
    /// Monotonic time, which timers use.
    pub(super) monotonic_ns: u64,
    /// Difference between the clock that sets the times of events and `monotonic_ns`, modulo 2^64.
    wall_ahead_ns: u64,
    /// Real time that peers get to make an awaited file descriptor ready before a timer ends early.
    pub(super) patience: Duration,
    /// Real time spent waiting since an awaited descriptor was last ready. When a timer ends early, this time is
    /// reduced: see [`SILENT_PEER`].
    silence: Duration,
    /// Number of steps that had to wait for a descriptor, a timer or a thread.
    pub(super) waited: u64,
    pub(super) folder: String,
    pub(super) log: Vec<(LogLevel, String)>,
    pub(super) metrics: Vec<Metric>,
    pub(super) stop_requests: Vec<String>,
    pub(super) connections_lost: u64,
    /// Bytes that components have borrowed.
    pub(super) memory: usize,
    /// Maximum number of bytes that components may borrow; `None` for no limit.
    pub(super) memory_limit: Option<usize>,
    pub(super) jobs: VecDeque<Job>,
    pub(super) tasks: Vec<FfiFuture<()>>,
    task_waker: Arc<TaskWaker>,
    waits: Vec<Wait>,
    next_wait: u64,
}

pub(super) struct Metric {
    pub(super) kind: MetricKind,
    pub(super) name: String,
    pub(super) help: String,
    pub(super) value: f64,
    /// Number of times that the metric was recorded.
    pub(super) records: u64,
}

impl State {
    pub(super) fn now_ns(&self) -> u64 {
        self.monotonic_ns.wrapping_add(self.wall_ahead_ns)
    }

    pub(super) fn set_now_ns(&mut self, now_ns: u64) {
        self.wall_ahead_ns = now_ns.wrapping_sub(self.monotonic_ns);
    }

    /// Returns whether a timer or a file descriptor is awaited.
    pub(super) fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }
}

/// Condition for which a future waits.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    /// The monotonic clock reaches this time, in ns.
    Time(u64),
    /// The file descriptor is ready.
    Descriptor(i32, Interest),
}

struct Wait {
    number: u64,
    cause: Cause,
    ended: bool,
    waker: Option<Waker>,
}

impl World {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Performs the first action that is possible, in this order: take a wake-up, run a blocking job, poll the tasks,
    /// check file descriptors, advance to the next timer. If no action is possible, waits for a wake-up from another
    /// thread, for at most `patience`.
    ///
    /// While a file descriptor is awaited, real time passes, because the peer needs time to answer. If only timers are
    /// awaited, the clock jumps to the next timer.
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
        // Work that a task has just started runs before time passes.
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
                Step::TimePassed
            }
            None if wakeup.wait(patience) => Step::Woken,
            None => Step::Waited,
        }
    }

    /// Waits for descriptors, for at most [`READINESS_SLICE`].
    ///
    /// The clock follows the real time of the wait, but stops exactly at the deadline of a timer. A timer ends early
    /// only if no descriptor became ready within the patience.
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

    /// Runs tasks and jobs that can end without waiting. Returns the number of tasks and the number of jobs that have
    /// not ended then.
    pub(super) fn left_over(&self) -> (usize, usize) {
        let wakeup = Wakeup::new();
        // A task may start another task, so there are several rounds. The number of rounds is limited, because tasks
        // might start tasks forever.
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
        let task_waker = self.lock().task_waker.clone();
        let wakeup = lock(&task_waker.0).upgrade();
        wakeup
            .into_iter()
            .filter(|wakeup| wakeup.thread.id() != thread::current().id())
            .for_each(Wakeup::wake);
    }

    /// Polls every task once. From now on, waking a task wakes the future of `wakeup`.
    fn poll_tasks(&self, wakeup: &Arc<Wakeup>) {
        let (waker, mut tasks) = {
            let state = &mut *self.lock();
            state.task_waker.set(wakeup);
            (Waker::from(state.task_waker.clone()), std::mem::take(&mut state.tasks))
        };
        let mut context = Context::from_waker(&waker);
        tasks.retain_mut(|task| Pin::new(task).poll(&mut context).is_pending());
        self.lock().tasks.append(&mut tasks);
    }

    /// Returns whether the future of `wakeup` can make progress: it was woken already, or a waker of the future or of a
    /// task still exists.
    pub(super) fn is_expected(&self, wakeup: &Arc<Wakeup>) -> bool {
        wakeup.is_expected() || Arc::strong_count(&self.lock().task_waker) > 1
    }

    /// Sets the monotonic clock to `time_ns`, unless it is later already. Returns `true` if a timer has ended.
    pub(super) fn advance_to(&self, time_ns: u64) -> bool {
        let now_ns = {
            let mut state = self.lock();
            state.monotonic_ns = state.monotonic_ns.max(time_ns);
            state.monotonic_ns
        };
        self.end_waits(|cause| matches!(cause, Cause::Time(deadline) if deadline <= now_ns))
    }

    /// Returns the deadline of the timer that ends next, if any.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let state = self.lock();
        let deadline = |wait: &Wait| match wait.cause {
            Cause::Time(deadline) if !wait.ended => Some(deadline),
            _ => None,
        };
        state.waits.iter().filter_map(deadline).min()
    }

    fn descriptors(&self) -> Vec<(i32, Interest)> {
        let state = self.lock();
        let descriptor = |wait: &Wait| match wait.cause {
            Cause::Descriptor(descriptor, interest) if !wait.ended => Some((descriptor, interest)),
            _ => None,
        };
        state.waits.iter().filter_map(descriptor).collect()
    }

    /// Ends the waits for whose cause `has_occurred` returns `true`. Returns `true` if at least one wait has ended.
    fn end_waits(&self, has_occurred: impl Fn(Cause) -> bool) -> bool {
        let (mut wakers, mut has_ended) = (Vec::new(), false);
        for wait in &mut self.lock().waits {
            if !wait.ended && has_occurred(wait.cause) {
                (wait.ended, has_ended) = (true, true);
                wakers.extend(wait.waker.take());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        has_ended
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The future was woken.
    Woken,
    /// An action was performed. The future was not woken.
    Worked,
    /// A timer has ended, and no descriptor is ready.
    TimePassed,
    /// No action was possible, and time was spent waiting.
    Waited,
}

/// A future that waits for one condition.
pub(super) struct Waiting {
    world: Arc<World>,
    number: u64,
}

impl Waiting {
    pub(super) fn new(world: Arc<World>, cause: Cause) -> Self {
        let number = {
            let mut state = world.lock();
            let ended = matches!(cause, Cause::Time(deadline) if deadline <= state.monotonic_ns);
            let number = state.next_wait;
            state.next_wait += 1;
            state.waits.push(Wait { number, cause, ended, waker: None });
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
            Some(wait) if !wait.ended => {
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

/// A waker of the thread that runs a test, for use from any thread.
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

    /// Returns whether the thread can be woken: it was woken already, or a waker still exists.
    pub(super) fn is_expected(self: &Arc<Self>) -> bool {
        self.woken.load(Ordering::Acquire) || Arc::strong_count(self) > 1
    }

    /// Waits until another thread wakes this thread. Returns `false` if no thread did within `patience`.
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

/// Waker of all tasks. A wake-up wakes the future that the host runs at that time. This may be another future than the
/// one during which the task was polled, because a task may keep the waker after that future has completed.
#[derive(Default)]
struct TaskWaker(Mutex<Weak<Wakeup>>);

impl TaskWaker {
    fn set(&self, wakeup: &Arc<Wakeup>) {
        *lock(&self.0) = Arc::downgrade(wakeup);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let wakeup = lock(&self.0).upgrade();
        // If no future is run, no wake-up is needed: all tasks are polled when the next future is run.
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

    /// Some libraries wake the waker of an earlier poll.
    #[test]
    fn waker_of_any_poll_wakes_the_task() {
        let test = TestHost::new();
        let wakers = Arc::<Mutex<Vec<Waker>>>::default();
        let keeps = wakers.clone();
        let keeps = poll_fn(move |context| {
            keeps.lock().unwrap().push(context.waker().clone());
            Poll::<()>::Pending
        });
        let _task = test.host().spawn("keeps its wakers", keeps);
        let step = |run| test.0.step(run, Some(Duration::ZERO));
        // Each value stands for a future that is run for one step, the first for two steps.
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

    /// Libraries that have their own threads queue jobs and tasks in this way.
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
