//! Tasks that are ready, and the threads that wait for some: none is left while a thread waits.

use crate::rt::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::{fails, holds};

/// What the operating system does: one thread wakes for a signal, now or when it waits next.
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

    /// Whether it is over.
    fn wait(&self) -> bool {
        let mut sent = self.0.lock().unwrap();
        while !sent.once && !sent.to_all {
            sent = self.1.wait(sent).unwrap();
        }
        sent.once = false;
        sent.to_all
    }
}

/// Two threads run two tasks that a third adds. `$first` says what the first of them does until the second has run.
macro_rules! two_tasks {
    ($variant:ident, $first:expr) => {
        crate::Model {
            preemptions: 3,
            run: || {
                use crate::$variant::executor::ready::{Ready, Taken};
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
                                    while task == $first && *count == 0 {
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
            },
        }
    };
}

/// A thread ends while there is a task and one more comes; another stays.
macro_rules! one_ends {
    ($variant:ident) => {
        crate::Model {
            preemptions: 3,
            run: || {
                use crate::$variant::executor::ready::{Ready, Taken};
                let (ready, signal) = (Arc::new(Ready::new()), Signal::new());
                // The first of three tasks ends its thread. An event adds the second one before that, for this thread.
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
            },
        }
    };
}

#[test]
fn a_thread_that_ends_leaves_what_it_has_woken_to_another() {
    holds(one_ends!(as_it_is));
}

#[test]
fn it_is_found_that_a_thread_that_ends_keeps_what_it_has_woken() {
    fails(one_ends!(ready_ends_and_wakes_no_thread), "deadlock");
}

#[test]
fn no_task_is_left_while_threads_wait() {
    holds(two_tasks!(as_it_is, 0));
}

#[test]
fn a_task_that_keeps_its_thread_keeps_no_other_task() {
    holds(two_tasks!(as_it_is, 1));
}

#[test]
fn it_is_found_that_a_leader_looks_before_it_is_known() {
    fails(two_tasks!(ready_looks_and_leads_apart, 0), "deadlock");
}

#[test]
fn it_is_found_that_a_leader_that_has_come_is_taken_for_one_on_its_way() {
    fails(two_tasks!(ready_keeps_its_signal, 1), "deadlock");
}

#[test]
fn it_is_found_that_a_thread_wakes_no_other_for_what_it_leaves() {
    fails(two_tasks!(ready_leaves_the_rest, 1), "deadlock");
}
