//! Standard error: log lines, messages for users, and the status line of a terminal.
//!
//! While flows run, a separate thread writes, and all other threads only add lines to a bounded queue. If a pipe is
//! full, its reader has exited, or the disk is full, log lines are lost, but no thread is blocked and the process
//! continues. Commands that run no flows write directly, so that no line is lost in `2>&1 | less`.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tremor_pdk::lock;
use tremor_runtime::log::count_dropped_lines;

/// Maximum size of the lines that wait to be written, in bytes. A typical log needs minutes to reach this size.
const CAPACITY: usize = 1 << 20;
/// Number of bytes that are added to the length of each waiting line.
const OVERHEAD: usize = 64;
/// Escape sequence that returns to the beginning of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[K";

static STDERR: Stderr = Stderr::new();

/// Queue of lines and the state of its writer.
struct Stderr {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    lines: VecDeque<Line>,
    /// Size of the waiting lines, in bytes.
    bytes: usize,
    /// Lines that were dropped since the last line that reports drops.
    dropped: u64,
    /// Status line below all other lines; empty if there is none.
    status: String,
    /// `true` if `status` has changed and was not written to the terminal since.
    is_status_new: bool,
    /// Creates the line that reports the number of dropped lines. Set while a separate thread writes.
    report: Option<fn(u64) -> String>,
    /// `true` while the separate thread is writing a line.
    is_writing: bool,
}

/// Text that ends with a line feed.
struct Line {
    text: String,
    /// Number of dropped lines that this line reports; 0 for any other line.
    reports: u64,
}

/// Starts the thread that writes. `report` gets the number of dropped lines and creates a line that reports it. If the
/// thread cannot be started, lines are written directly, as before.
pub(super) fn start_thread(report: fn(u64) -> String) {
    STDERR.lock().report = Some(report);
    let thread = thread::Builder::new().name("log".to_owned());
    if thread.spawn(|| STDERR.write_lines()).is_err() {
        STDERR.lock().report = None;
    }
}

/// Writes a line of the log, or drops it if the queue is full.
pub(super) fn log(text: String) {
    STDERR.push(text, CAPACITY);
}

/// Writes a message for users. The queue accepts such messages even if it is full, because there are only few of them.
pub(super) fn print(text: String) {
    STDERR.push(text, usize::MAX);
}

/// Shows `text` as the status line below all other lines. An empty text removes the status line.
pub(super) fn set_status(text: String) {
    let mut state = STDERR.lock();
    state.status = text;
    state.is_status_new = true;
    drop(state);
    STDERR.changed.notify_all();
}

/// Waits until all lines are written, for `limit` at most. If the process ends after this call, the remaining lines are
/// lost.
pub(super) fn flush(limit: Duration) {
    let end = Instant::now() + limit;
    let mut state = STDERR.lock();
    while state.is_busy() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let waited = STDERR.changed.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Returns whether standard error is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

impl Stderr {
    const fn new() -> Self {
        let state = State {
            lines: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            status: String::new(),
            is_status_new: false,
            report: None,
            is_writing: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn push(&self, text: String, capacity: usize) {
        let mut state = self.lock();
        if state.report.is_none() {
            drop(state);
            // An error is ignored, because it could only be reported on stderr. The reader of stderr may have exited.
            _ = write_all(io::stderr().as_fd(), text.as_bytes());
            return;
        }
        if state.push(Line { text, reports: 0 }, capacity) {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Writes lines until the process ends.
    fn write_lines(&self) {
        let mut state = self.lock();
        loop {
            let Some((line, text)) = state.next() else {
                self.changed.notify_all();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let result = write_all(io::stderr().as_fd(), text.as_bytes());
            state = self.lock();
            state.written(line, result.is_ok());
        }
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.is_writing || !self.lines.is_empty() || self.is_status_new
    }

    /// Adds a line. Returns `false` if it was dropped because the queue is full.
    fn push(&mut self, line: Line, capacity: usize) -> bool {
        let bytes = line.text.len() + OVERHEAD;
        if self.bytes.saturating_add(bytes) > capacity {
            self.lose(&line);
            return false;
        }
        self.bytes += bytes;
        self.lines.push_back(line);
        true
    }

    /// Counts a dropped line. If the line was a report, the lines that it reported are counted as dropped again.
    fn lose(&mut self, line: &Line) {
        if line.reports == 0 {
            count_dropped_lines(1);
        }
        self.dropped += line.reports.max(1);
    }

    /// Returns the next line, if there is one, and the text to write: the line and the status line.
    fn next(&mut self) -> Option<(Option<Line>, String)> {
        let line = self.lines.pop_front();
        let shown = line.as_ref().map_or("", |line| &line.text);
        let text = if self.status.is_empty() && !self.is_status_new {
            shown.to_owned()
        } else {
            [CLEAR_LINE, shown, &self.status].concat()
        };
        self.bytes -= line.as_ref().map_or(0, |line| line.text.len() + OVERHEAD);
        self.is_writing = line.is_some() || self.is_status_new;
        self.is_status_new = false;
        self.is_writing.then_some((line, text))
    }

    /// Handles the result of writing a line. Counts a line that could not be written as dropped. If the line was
    /// written, adds a report of the lines that were dropped before.
    fn written(&mut self, line: Option<Line>, is_ok: bool) {
        self.is_writing = false;
        let Some(line) = line else { return };
        if !is_ok {
            self.lose(&line);
        } else if self.dropped > 0
            && let Some(report) = self.report
        {
            let dropped = std::mem::take(&mut self.dropped);
            let line = Line { text: report(dropped), reports: dropped };
            self.bytes += line.text.len() + OVERHEAD;
            self.lines.push_front(line);
        }
    }
}

/// Writes all of `bytes`. Waits if the descriptor is non-blocking and accepts no data at present.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Line, OVERHEAD, State, Stderr};

    fn state() -> State {
        let mut state = Stderr::new().state.into_inner().unwrap();
        state.report = Some(|dropped| format!("{dropped} dropped\n"));
        state
    }

    fn push(state: &mut State, text: &str, capacity: usize) -> bool {
        state.push(Line { text: text.to_owned(), reports: 0 }, capacity)
    }

    #[test]
    fn full_queue_drops_lines_and_reports_their_number() {
        let (mut state, two) = (state(), 2 * ("a\n".len() + OVERHEAD));
        let pushed = ["a\n", "b\n", "c\n", "d\n"].map(|text| push(&mut state, text, two));
        assert_eq!(pushed, [true, true, false, false]);
        let mut shown = String::new();
        while let Some((line, text)) = state.next() {
            shown += &text;
            state.written(line, true);
        }
        assert_eq!(shown, "a\n2 dropped\nb\n");
        assert_eq!((state.bytes, state.dropped), (0, 0));
    }

    #[test]
    fn unwritten_lines_are_reported_with_next_written_line() {
        let mut state = state();
        let mut write = |text: &str, is_ok| {
            assert!(push(&mut state, text, CAPACITY));
            let mut shown = Vec::new();
            while let Some((line, text)) = state.next() {
                shown.push(text);
                state.written(line, is_ok);
            }
            shown
        };
        assert_eq!(write("a\n", false), ["a\n"]);
        assert_eq!(write("b\n", false), ["b\n"]);
        assert_eq!(write("c\n", true), ["c\n", "2 dropped\n"]);
        assert_eq!(write("d\n", true), ["d\n"]);
    }

    #[test]
    fn unwritten_report_keeps_the_count_of_dropped_lines() {
        let mut state = state();
        assert!(!push(&mut state, "a\n", 0));
        assert!(push(&mut state, "b\n", CAPACITY));
        for is_ok in [true, false] {
            let (line, _) = state.next().unwrap();
            state.written(line, is_ok);
        }
        assert_eq!(state.dropped, 1);
    }

    #[test]
    fn status_line_stays_below_lines_of_the_log() {
        let mut state = state();
        (state.status, state.is_status_new) = ("50 %".to_owned(), true);
        assert_eq!(state.next().unwrap().1, "\r\x1b[K50 %");
        assert!(state.next().is_none());
        assert!(push(&mut state, "a\n", CAPACITY));
        assert_eq!(state.next().unwrap().1, "\r\x1b[Ka\n50 %");
        (state.status, state.is_status_new) = (String::new(), true);
        assert_eq!(state.next().unwrap().1, "\r\x1b[K");
        assert!(state.next().is_none());
    }
}
