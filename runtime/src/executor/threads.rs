//! The threads that run tasks. An idle thread waits for file descriptors itself, and runs the tasks that an event
//! wakes.

use std::{
    cell::Cell,
    future::Future,
    io,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use async_task::{Builder, Runnable, ScheduleInfo, WithInfo};

use super::{
    readiness::{Interest, Readiness, Watched},
    ready::{Ready, Taken},
};

/// Maximum number of threads, including replacement threads, as a multiple of the initial number.
const MAX_FACTOR: usize = 4;
/// Longest time for which file descriptors are not polled while all threads run tasks.
const MAX_UNPOLLED: Duration = Duration::from_micros(100);

static THREADS: LazyLock<Threads> = LazyLock::new(Threads::begin);

thread_local! {
    /// `true` while tasks that the thread wakes are to be run by the thread itself.
    static TAKES_NEXT: Cell<bool> = const { Cell::new(false) };
    /// `true` if the thread has to end.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

struct Threads {
    ready: Ready<Runnable>,
    readiness: Readiness,
    count: AtomicUsize,
}

impl Threads {
    #[expect(clippy::panic, reason = "no flow can run without the executor")]
    fn begin() -> Self {
        let readiness = Readiness::new().unwrap_or_else(|error| {
            panic!("cannot create a file descriptor for the executor: {error}")
        });
        for _ in 0..super::threads() {
            begin()
                .unwrap_or_else(|error| panic!("cannot start a thread for the executor: {error}"));
        }
        Self { ready: Ready::new(), readiness, count: AtomicUsize::new(super::threads()) }
    }

    fn schedule(&self, task: Runnable, info: ScheduleInfo) {
        // If a task was woken while it ran, the thread that ran it schedules the task and takes it next.
        let takes_next = info.woken_while_running || TAKES_NEXT.get();
        if self.ready.add(task, takes_next) {
            self.readiness.signal();
        }
    }

    /// Runs tasks until the thread has to end.
    fn run(&self) {
        let mut events = Readiness::events();
        let mut polled = Instant::now();
        while !ENDS.get() {
            match self.ready.take() {
                Taken::Task { task, signals, is_unattended } => {
                    if signals {
                        self.readiness.signal();
                    }
                    // The panic of a task is propagated to the code that awaits the task.
                    _ = catch_unwind(AssertUnwindSafe(|| task.run()));
                    if is_unattended && !ENDS.get() && polled.elapsed() >= MAX_UNPOLLED {
                        if takes_next(|| self.readiness.poll(&mut events)) {
                            self.ready.has_signal();
                        }
                        polled = Instant::now();
                    }
                }
                Taken::Leads => {
                    takes_next(|| self.readiness.wait(&mut events));
                    self.ready.has_led();
                    polled = Instant::now();
                }
            }
        }
        self.attend();
    }

    fn attend(&self) {
        if self.ready.attend() {
            self.readiness.signal();
        }
    }
}

/// Calls a function that wakes tasks. The calling thread runs these tasks next.
fn takes_next<T>(wakes_tasks: impl FnOnce() -> T) -> T {
    TAKES_NEXT.set(true);
    let result = wakes_tasks();
    TAKES_NEXT.set(false);
    result
}

fn begin() -> io::Result<()> {
    thread::Builder::new().name("tasks".to_owned()).spawn(|| THREADS.run()).map(drop)
}

pub(super) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> async_task::Task<T> {
    let schedule = WithInfo(|task, info| THREADS.schedule(task, info));
    let (task, handle) = Builder::new().propagate_panic(true).spawn(|()| future, schedule);
    task.schedule();
    handle
}

/// Registers a file descriptor whose readiness can be awaited.
///
/// # Errors
/// The operating system cannot wait for this kind of file.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<Watched> {
    Watched::new(&THREADS.readiness, descriptor, interest)
}

/// Wakes an idle thread to wait for file descriptors, if no thread waits for them. This is necessary because the thread
/// that received the last event may run the woken task for long.
pub(crate) fn attend() {
    THREADS.attend();
}

/// Starts up to `wanted` further threads, and returns the number of threads that were started.
///
/// # Errors
/// The system cannot start even one thread.
pub(super) fn start_more(wanted: usize) -> io::Result<usize> {
    let free =
        (MAX_FACTOR * super::threads()).saturating_sub(THREADS.count.load(Ordering::Relaxed));
    let count = wanted.min(free);
    for begun in 0..count {
        match begin() {
            Ok(()) => THREADS.count.fetch_add(1, Ordering::Relaxed),
            Err(error) if begun == 0 => return Err(error),
            Err(_) => return Ok(begun),
        };
    }
    Ok(count)
}

/// Requests that one idle thread ends. The returned task completes once a thread has taken the request.
pub(super) fn end_one() -> async_task::Task<()> {
    spawn(async {
        ENDS.set(true);
        THREADS.count.fetch_sub(1, Ordering::Relaxed);
    })
}
