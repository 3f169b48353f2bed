//! An executor for tests, which runs all tasks on the thread of the test. The order of the tasks is therefore the same
//! in each run, and a simulated clock advances only while all tasks wait.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use async_task::{Runnable, Task};
use tremor_pdk::lock;

use crate::clock::Clock;

thread_local! {
    /// The executor that runs on the thread.
    static CURRENT: RefCell<Option<Arc<Tasks>>> = const { RefCell::new(None) };
}

struct Tasks {
    clock: Clock,
    ready: Mutex<VecDeque<Runnable>>,
    idle: Mutex<Idle>,
}

/// The state of [`until_idle`].
#[derive(Default)]
struct Idle {
    waiting: Option<Waker>,
    /// Number of times that all tasks waited.
    count: usize,
}

/// `true` once the future of [`run`] was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Leaves the executor when it is dropped.
struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        let tasks = CURRENT.take();
        // Tasks that are dropped may schedule other tasks.
        while let Some(task) = tasks.as_ref().and_then(|tasks| lock(&tasks.ready).pop_front()) {
            drop(task);
        }
    }
}

/// Runs a future, and the tasks that it spawns, on the calling thread. Whenever all of them wait, the simulated `clock`
/// is advanced to its next timer.
///
/// # Panics
/// Panics if every task waits and no timer is set, because the test would hang.
pub(crate) fn run<T>(clock: &Clock, work: impl Future<Output = T>) -> T {
    let (ready, idle) = (Mutex::default(), Mutex::default());
    let tasks = Arc::new(Tasks { clock: clock.clone(), ready, idle });
    assert!(CURRENT.replace(Some(tasks.clone())).is_none(), "the thread has an executor");
    let _entered = Entered;
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(woken.clone());
    let mut work = Box::pin(work);
    loop {
        if woken.0.swap(false, Ordering::Relaxed)
            && let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(&waker))
        {
            return result;
        }
        let task = lock(&tasks.ready).pop_front();
        if let Some(task) = task {
            task.run();
        } else if !woken.0.load(Ordering::Relaxed) && !tasks.report_idle() {
            let next = clock.next_timer().expect("a task waits for something that cannot happen");
            clock.advance(next);
        }
    }
}

/// Returns whether an executor of this module runs on the calling thread.
pub(super) fn is_running() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Spawns a task on the executor of the calling thread.
pub(super) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    let tasks = current();
    let schedule = move |task| lock(&tasks.ready).push_back(task);
    let (task, handle) =
        async_task::Builder::new().propagate_panic(true).spawn(|()| future, schedule);
    task.schedule();
    handle
}

/// Waits until all other tasks wait. The clock is not advanced meanwhile.
pub(crate) async fn until_idle() {
    let tasks = current();
    let count = lock(&tasks.idle).count;
    poll_fn(|context| {
        let mut idle = lock(&tasks.idle);
        if idle.count != count {
            return Poll::Ready(());
        }
        idle.waiting = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Advances the clock by `duration`, and waits until all other tasks wait.
pub(crate) async fn pass(duration: Duration) {
    current().clock.advance(duration);
    until_idle().await;
}

fn current() -> Arc<Tasks> {
    CURRENT.with_borrow(Option::clone).expect("the test runs on this executor")
}

impl Tasks {
    /// Reports to [`until_idle`] that all tasks wait. Returns `false` if no task waits for that.
    fn report_idle(&self) -> bool {
        let mut idle = lock(&self.idle);
        let Some(waiting) = idle.waiting.take() else { return false };
        idle.count += 1;
        drop(idle);
        waiting.wake();
        true
    }
}
