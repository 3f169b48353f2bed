//! Tasks that are ready to run, and the threads that wait for some: which of them is woken, and when.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Tasks in the order in which they became ready.
///
/// Of the threads without a task one leads: it waits for events of the operating system, and for a signal. The
/// others wait to be called. So an event wakes one thread, and that which had the last event has the next. A
/// leader that has an event runs what the event has woken, and no other is woken to lead meanwhile: that takes longer
/// than most tasks take. While one thread is on its way no other is woken; it sees to that itself.
#[derive(Debug)]
pub(super) struct Ready<T> {
    state: Mutex<State<T>>,
    call: Condvar,
}

#[derive(Debug)]
struct State<T> {
    tasks: VecDeque<T>,
    /// Threads that wait to be called.
    waiting: usize,
    has_leader: bool,
    on_its_way: OnItsWay,
}

/// Which thread was woken and has not looked for a task yet.
#[derive(Debug, PartialEq, Eq)]
enum OnItsWay {
    Nobody,
    Leader,
    OneThatWaited,
}

/// What there is for a thread.
#[derive(Debug)]
pub(super) enum Taken<T> {
    Task {
        task: T,
        /// Send the signal: there is work for the leader.
        signals: bool,
        /// No thread waits for events.
        is_unattended: bool,
    },
    /// Nothing: wait for events, and say that this has [ended](Ready::has_led).
    Leads,
}

impl<T> Ready<T> {
    pub(super) fn new() -> Self {
        let state = State {
            tasks: VecDeque::new(),
            waiting: 0,
            has_leader: false,
            on_its_way: OnItsWay::Nobody,
        };
        Self { state: Mutex::new(state), call: Condvar::new() }
    }

    /// Adds a task. Wakes a thread for it, unless the one that adds it `takes_next`. Says whether the signal is to be
    /// sent for that.
    #[must_use = "the leader may have to be woken"]
    pub(super) fn add(&self, task: T, takes_next: bool) -> bool {
        let mut state = self.lock();
        state.tasks.push_back(task);
        !takes_next && self.wakes(&mut state)
    }

    /// Waits for something to do.
    pub(super) fn take(&self) -> Taken<T> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                let signals = !state.tasks.is_empty() && self.wakes(&mut state);
                return Taken::Task { task, signals, is_unattended: !state.has_leader };
            }
            if !state.has_leader {
                state.has_leader = true;
                return Taken::Leads;
            }
            state.waiting += 1;
            while state.on_its_way != OnItsWay::OneThatWaited {
                state = self.call.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.on_its_way = OnItsWay::Nobody;
            state.waiting -= 1;
        }
    }

    /// The leader leads no more.
    pub(super) fn has_led(&self) {
        self.lock().has_leader = false;
        self.has_signal();
    }

    /// The signal has come, to whichever thread: it takes what there is.
    pub(super) fn has_signal(&self) {
        let mut state = self.lock();
        if state.on_its_way == OnItsWay::Leader {
            state.on_its_way = OnItsWay::Nobody;
        }
    }

    /// Wakes a thread that waits, if nobody leads, or if there are tasks: from time to time, since those that run tasks
    /// may be long, and by a thread that ends, since it takes none of what it has woken. Says whether the signal is to be
    /// sent for that.
    #[must_use = "the leader may have to be woken"]
    pub(super) fn attend(&self) -> bool {
        let mut state = self.lock();
        (!state.has_leader || !state.tasks.is_empty()) && self.wakes(&mut state)
    }

    fn wakes(&self, state: &mut State<T>) -> bool {
        if state.on_its_way != OnItsWay::Nobody {
            return false;
        }
        if state.waiting > 0 {
            state.on_its_way = OnItsWay::OneThatWaited;
            self.call.notify_one();
        } else if state.has_leader {
            state.on_its_way = OnItsWay::Leader;
        }
        state.on_its_way == OnItsWay::Leader
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
