//! The queue of tasks that are ready to run, and the decision which idle thread is woken for a task.

use std::{collections::VecDeque, sync::PoisonError};

use crate::sync::{Condvar, Mutex, fault, lock};

/// Tasks in the order in which they became ready.
///
/// One of the idle threads, the leader, waits for events of the operating system and for a signal. The other idle
/// threads wait on a condition variable. An event therefore wakes only one thread, and the thread that handled the last
/// event gets the next one.
///
/// A leader that receives an event runs the task that the event woke. No other thread is woken to lead in the meantime,
/// because waking a thread takes longer than most tasks. While one thread is being woken, no second one is woken: the
/// woken thread wakes the next one if there are more tasks.
#[derive(Debug)]
pub(super) struct Ready<T> {
    state: Mutex<State<T>>,
    call: Condvar,
}

#[derive(Debug)]
struct State<T> {
    tasks: VecDeque<T>,
    /// Number of threads that wait on the condition variable.
    waiting: usize,
    has_leader: bool,
    woken: Woken,
}

/// The thread that was woken and has not taken a task yet.
#[derive(Debug, PartialEq, Eq)]
enum Woken {
    None,
    Leader,
    Waiting,
}

/// Result of waiting for work.
#[derive(Debug)]
pub(super) enum Taken<T> {
    Task {
        task: T,
        /// `true` if the caller has to send the signal, because there is a task for the leader.
        signals: bool,
        /// `true` if there is no leader.
        is_unattended: bool,
    },
    /// No task is ready, and the caller is now the leader: it has to wait for events and to call [`Ready::has_led`]
    /// afterwards.
    Leads,
}

impl<T> Ready<T> {
    pub(super) fn new() -> Self {
        let state =
            State { tasks: VecDeque::new(), waiting: 0, has_leader: false, woken: Woken::None };
        Self { state: Mutex::new(state), call: Condvar::new() }
    }

    /// Adds a task. Wakes a thread for the task, unless `takes_next` is `true`, which means that the calling thread
    /// takes the task next. Returns `true` if the caller has to send the signal.
    #[must_use = "the leader may have to be woken"]
    pub(super) fn add(&self, task: T, takes_next: bool) -> bool {
        let mut state = lock(&self.state);
        state.tasks.push_back(task);
        !takes_next && self.wakes(&mut state)
    }

    /// Waits until a task is ready or the calling thread becomes the leader.
    pub(super) fn take(&self) -> Taken<T> {
        let mut state = lock(&self.state);
        loop {
            if let Some(task) = state.tasks.pop_front() {
                let leaves_tasks =
                    !state.tasks.is_empty() && !fault("ready_leaves_tasks_without_wake");
                let signals = leaves_tasks && self.wakes(&mut state);
                return Taken::Task { task, signals, is_unattended: !state.has_leader };
            }
            if !state.has_leader {
                if fault("ready_checks_and_leads_apart") {
                    drop(state);
                    state = lock(&self.state);
                }
                state.has_leader = true;
                return Taken::Leads;
            }
            state.waiting += 1;
            while state.woken != Woken::Waiting {
                state = self.call.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.woken = Woken::None;
            state.waiting -= 1;
        }
    }

    /// Ends the leadership of the calling thread.
    pub(super) fn has_led(&self) {
        lock(&self.state).has_leader = false;
        if !fault("ready_keeps_signal") {
            self.has_signal();
        }
    }

    /// Records that a thread received the signal. The thread has to take a task next.
    pub(super) fn has_signal(&self) {
        let mut state = lock(&self.state);
        if state.woken == Woken::Leader {
            state.woken = Woken::None;
        }
    }

    /// Wakes a waiting thread if there is no leader or if tasks are ready. Returns `true` if the caller has to send the
    /// signal.
    ///
    /// Called periodically, because a running task may take long. Also called by a thread that ends, because such a
    /// thread takes none of the tasks that it woke.
    #[must_use = "the leader may have to be woken"]
    pub(super) fn attend(&self) -> bool {
        let mut state = lock(&self.state);
        let has_tasks = !state.tasks.is_empty() && !fault("ready_ends_without_wake");
        (!state.has_leader || has_tasks) && self.wakes(&mut state)
    }

    fn wakes(&self, state: &mut State<T>) -> bool {
        if state.woken != Woken::None {
            return false;
        }
        if state.waiting > 0 {
            state.woken = Woken::Waiting;
            self.call.notify_one();
        } else if state.has_leader {
            state.woken = Woken::Leader;
        }
        state.woken == Woken::Leader
    }
}
