//! Reports of panics on standard error.
//!
//! A separate thread writes the reports, because standard error may be a pipe that is full and not read, and the
//! panicking thread, which belongs to the host, must not block.

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::lock;

/// Maximum number of reports that wait to be written. Further reports are dropped, which loses no location, because the
/// error of each panic contains its location.
const CAPACITY: usize = 16;

/// Maximum time that a panicking thread waits until its report is written. Because of the wait, the report usually
/// precedes log lines about the consequences of the panic.
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
    /// `true` if writing a report has taken longer than [`PATIENCE`]. Threads do not wait for their reports until that
    /// report is written.
    is_stuck: bool,
}

/// Writes `report`, or drops it if too many earlier reports are waiting.
pub(super) fn write(report: String) {
    REPORTS.write(report);
}

impl Reports {
    fn write(&'static self, report: String) {
        let mut state = lock(&self.state);
        if !state.has_thread {
            let thread = thread::Builder::new().name("panic reports".to_owned());
            state.has_thread = thread.spawn(|| self.run()).is_ok();
        }
        if !state.has_thread || !state.push(report) {
            return;
        }
        self.changed.notify_all();
        let is_written = |state: &mut State| !state.is_busy() || state.is_stuck;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !is_written(state));
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_stuck |= waited.timed_out();
    }

    /// Writes reports until the process ends.
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            let Some(report) = state.next() else {
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // An error is ignored, because there is no other output for the report.
            _ = io::stderr().write_all(report.as_bytes());
            state = lock(&self.state);
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

    /// Adds a report. Returns `false` if the report was dropped, because too many are waiting.
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
