//! The threads that run tasks. One that has none waits for file descriptors itself: what wakes it is what runs.

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

/// How many threads there may be, as a multiple of how many there are at first.
const TIMES_AS_MANY: usize = 4;
/// How long file descriptors are left alone while all threads have tasks.
const UNHEARD: Duration = Duration::from_micros(100);

static THREADS: LazyLock<Threads> = LazyLock::new(Threads::begin);

thread_local! {
    /// The thread takes the next task before it does anything else.
    static TAKES_NEXT: Cell<bool> = const { Cell::new(false) };
    /// The thread is to end.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

struct Threads {
    ready: Ready<Runnable>,
    readiness: Readiness,
    count: AtomicUsize,
}

impl Threads {
    #[expect(clippy::panic, reason = "nothing runs without")]
    fn begin() -> Self {
        let readiness = Readiness::new().unwrap_or_else(|error| {
            panic!("the system has no file descriptor for the executor: {error}")
        });
        for _ in 0..super::threads() {
            begin().unwrap_or_else(|error| {
                panic!("the system has no thread for the executor: {error}")
            });
        }
        Self { ready: Ready::new(), readiness, count: AtomicUsize::new(super::threads()) }
    }

    fn schedule(&self, task: Runnable, info: ScheduleInfo) {
        // A task that was woken while it ran comes back from the thread that ran it.
        let takes_next = info.woken_while_running || TAKES_NEXT.get();
        if self.ready.add(task, takes_next) {
            self.readiness.signal();
        }
    }

    /// Runs tasks until the thread is to end.
    fn run(&self) {
        let mut events = Readiness::events();
        let mut looked = Instant::now();
        while !ENDS.get() {
            match self.ready.take() {
                Taken::Task { task, signals, is_unattended } => {
                    if signals {
                        self.readiness.signal();
                    }
                    // What a task panics with is for who waits for the task.
                    _ = catch_unwind(AssertUnwindSafe(|| task.run()));
                    if is_unattended && !ENDS.get() && looked.elapsed() >= UNHEARD {
                        if takes_next(|| self.readiness.look(&mut events)) {
                            self.ready.has_signal();
                        }
                        looked = Instant::now();
                    }
                }
                Taken::Leads => {
                    takes_next(|| self.readiness.wait(&mut events));
                    self.ready.has_led();
                    looked = Instant::now();
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

/// Wakes tasks that this thread runs next.
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

/// A file descriptor that is waited for.
///
/// # Errors
/// Where the operating system cannot wait for this kind of file.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<Watched> {
    Watched::new(&THREADS.readiness, descriptor, interest)
}

/// Has a thread wait for file descriptors if none does and one has nothing to do: a thread may keep long what an
/// event has brought it.
pub(crate) fn attend() {
    THREADS.attend();
}

/// Begins up to so many threads more. Says how many.
///
/// # Errors
/// Where the system gives not even one.
pub(super) fn more(wanted: usize) -> io::Result<usize> {
    let free =
        (TIMES_AS_MANY * super::threads()).saturating_sub(THREADS.count.load(Ordering::Relaxed));
    let more = wanted.min(free);
    for begun in 0..more {
        match begin() {
            Ok(()) => THREADS.count.fetch_add(1, Ordering::Relaxed),
            Err(error) if begun == 0 => return Err(error),
            Err(_) => return Ok(begun),
        };
    }
    Ok(more)
}

/// Ends one thread: whichever takes this up, so none that is blocked.
pub(super) fn fewer() -> async_task::Task<()> {
    spawn(async {
        ENDS.set(true);
        THREADS.count.fetch_sub(1, Ordering::Relaxed);
    })
}
