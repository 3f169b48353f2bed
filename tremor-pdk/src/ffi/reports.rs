//! Reports of panics on standard error, written by a thread of their own: a pipe that is full and that nobody reads
//! must not hold the thread that panicked, which is the host's.

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Maximum number of reports that wait to be written. Further ones are dropped: the error of each panic has its place.
const CAPACITY: usize = 16;

/// Longest wait for a report to be written. Usually it is there before the panicking thread continues, and so before
/// whatever comes of the panic.
const PATIENCE: Duration = Duration::from_millis(100);

static REPORTS: Reports = Reports { state: Mutex::new(State::new()), changed: Condvar::new() };

struct Reports {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: VecDeque<String>,
    has_thread: bool,
    is_writing: bool,
    /// `true` after a report took longer than [`PATIENCE`], until it is written.
    is_stuck: bool,
}

/// Writes `report`, or drops it if earlier ones cannot be written.
pub(super) fn write(report: String) {
    REPORTS.write(report);
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&'static self, report: String) {
        let mut state = self.lock();
        if !state.has_thread {
            let thread = thread::Builder::new().name("panic reports".to_owned());
            state.has_thread = thread.spawn(|| self.run()).is_ok();
        }
        if !state.has_thread || !state.push(report) {
            return;
        }
        self.changed.notify_all();
        let is_written = |state: &mut State| !state.is_busy() || state.is_stuck;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |it| !is_written(it));
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_stuck |= waited.timed_out();
    }

    /// Writes reports for as long as the process lives.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some(report) = state.next() else {
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // The reader may be gone, and there is nobody else to notify.
            _ = io::stderr().write_all(report.as_bytes());
            state = self.lock();
            state.is_stuck = false;
        }
    }
}

impl State {
    const fn new() -> Self {
        let waiting = VecDeque::new();
        Self { waiting, has_thread: false, is_writing: false, is_stuck: false }
    }

    fn is_busy(&self) -> bool {
        self.is_writing || !self.waiting.is_empty()
    }

    /// Adds a report. Returns `false` if it was dropped.
    fn push(&mut self, report: String) -> bool {
        let has_capacity = self.waiting.len() < CAPACITY;
        if has_capacity {
            self.waiting.push_back(report);
        }
        has_capacity
    }

    fn next(&mut self) -> Option<String> {
        let next = self.waiting.pop_front();
        self.is_writing = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, State};

    #[test]
    fn full_queue_drops_reports() {
        let mut state = State::new();
        for _ in 0..CAPACITY {
            assert!(state.push("report".to_owned()));
        }
        assert!(!state.push("dropped".to_owned()));
        assert!(state.next().is_some() && state.is_busy());
        assert!(state.push("report".to_owned()));
        while state.next().is_some() {}
        assert!(!state.is_busy());
    }
}
