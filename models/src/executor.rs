//! Models of the queue of ready tasks and the threads that run tasks. No thread waits while a task
//! is ready.

use crate::{
    Model,
    rt::{
        sync::{Arc, Condvar, Mutex},
        thread,
    },
};

#[path = "../../runtime/src/executor/ready.rs"]
mod ready;

use ready::{Ready, Taken};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "short_tasks",
        run: || two_tasks(0),
        preemptions: 3,
        faults: &[("ready_checks_and_leads_apart", "deadlock")],
    },
    Model {
        name: "long_task",
        run: || two_tasks(1),
        preemptions: 3,
        faults: &[
            ("ready_keeps_signal", "deadlock"),
            ("ready_leaves_tasks_without_wake", "deadlock"),
        ],
    },
    Model {
        name: "thread_ends",
        run: thread_ends,
        preemptions: 3,
        faults: &[("ready_ends_without_wake", "deadlock")],
    },
];

pub(crate) async fn yield_now() {}

/// Two threads run two tasks (1 and 2), which a third thread adds. The task with the number `long` runs until the other
/// task has run. If `long` is 0, no task waits for the other.
fn two_tasks(long: u32) {
    let (ready, signal) = (Arc::new(Ready::new()), Signal::new());
    let done = Arc::new((Mutex::new(0), Condvar::new()));
    let runs = || {
        let (ready, signal, done) = (ready.clone(), signal.clone(), done.clone());
        thread::spawn(move || {
            loop {
                match ready.take() {
                    Taken::Task { task, signals, .. } => {
                        if signals {
                            signal.send();
                        }
                        let mut count = done.0.lock().unwrap();
                        while task == long && *count == 0 {
                            count = done.1.wait(count).unwrap();
                        }
                        *count += 1;
                        done.1.notify_all();
                        if *count == 2 {
                            signal.end();
                        }
                    }
                    Taken::Leads => {
                        let is_over = signal.wait();
                        ready.has_led();
                        if is_over {
                            _ = ready.attend();
                            break;
                        }
                    }
                }
            }
        })
    };
    let threads = [runs(), runs()];
    for task in [1, 2] {
        if ready.add(task, false) {
            signal.send();
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A thread ends while a task is ready and another one is added. A second thread continues.
fn thread_ends() {
    let (ready, signal) = (Arc::new(Ready::new()), Signal::new());
    // Task 0 ends its thread. Before that, an event adds task 1 for the same thread.
    assert!(!ready.add(0, false));
    let runs = || {
        let (ready, signal) = (ready.clone(), signal.clone());
        thread::spawn(move || {
            let mut ran = 0;
            loop {
                match ready.take() {
                    Taken::Task { task: 0, .. } => {
                        assert!(!ready.add(1, true));
                        break;
                    }
                    Taken::Task { signals, .. } => {
                        if signals {
                            signal.send();
                        }
                        ran += 1;
                        if ran == 2 {
                            return;
                        }
                    }
                    Taken::Leads => {
                        signal.wait();
                        ready.has_led();
                    }
                }
            }
            if ready.attend() {
                signal.send();
            }
        })
    };
    let threads = [runs(), runs()];
    if ready.add(2, false) {
        signal.send();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The double of the signal of the operating system. Each signal wakes one thread. If no thread
/// waits, the next thread that begins to wait is woken immediately.
#[derive(Default)]
struct Signal(Mutex<Sent>, Condvar);

#[derive(Default)]
struct Sent {
    once: bool,
    to_all: bool,
}

impl Signal {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Sent::default()), Condvar::new()))
    }

    fn send(&self) {
        self.0.lock().unwrap().once = true;
        self.1.notify_one();
    }

    fn end(&self) {
        self.0.lock().unwrap().to_all = true;
        self.1.notify_all();
    }

    /// Waits for a signal. Returns `true` if there will be no more signals.
    fn wait(&self) -> bool {
        let mut sent = self.0.lock().unwrap();
        while !sent.once && !sent.to_all {
            sent = self.1.wait(sent).unwrap();
        }
        sent.once = false;
        sent.to_all
    }
}
