//! Standard error: log lines, messages for users, and the status line of a terminal.
//!
//! While flows run, a thread of its own writes, and everybody else only puts lines into a bounded queue: a
//! pipe that is full and that nobody reads, a reader that is gone and a full disk cost log lines, and never
//! block or end the process. Other commands write at once, so that nothing is lost in `2>&1 | less`.

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
use tremor_runtime::log::count_dropped_lines;

/// Maximum bytes of lines that wait to be written: minutes of a usual log, and little memory.
const CAPACITY: usize = 1 << 20;
/// Bytes that each waiting line costs beside its text.
const OVERHEAD: usize = 64;
/// Returns to the beginning of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[K";

static STDERR: Stderr = Stderr::new();

/// The queue of lines and its writer.
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
    /// The line below all others; empty unless there is one.
    status: String,
    /// `true` if the terminal does not show `status` yet.
    is_status_new: bool,
    /// Makes the line that reports dropped lines; set while a thread writes.
    report: Option<fn(u64) -> String>,
    /// `true` while the thread writes.
    is_writing: bool,
}

/// Text that ends with a line feed.
struct Line {
    text: String,
    /// Number of dropped lines that this line reports; 0 for any other line.
    reports: u64,
}

/// Starts the thread that writes. `report` makes the line that reports the number of dropped lines. Without a
/// thread, lines are still written at once.
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

/// Writes a message for users: such messages are few, so the queue takes them in any case.
pub(super) fn print(text: String) {
    STDERR.push(text, usize::MAX);
}

/// Shows `text` below all other lines, instead of the status line before it; an empty text removes that.
pub(super) fn set_status(text: String) {
    let mut state = STDERR.lock();
    state.status = text;
    state.is_status_new = true;
    drop(state);
    STDERR.changed.notify_all();
}

/// Waits until everything is written, or until `limit` is over: what is left then is lost.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, text: String, capacity: usize) {
        let mut state = self.lock();
        if state.report.is_none() {
            drop(state);
            // The reader may be gone, and there is nobody else to notify.
            _ = write_all(io::stderr().as_fd(), text.as_bytes());
            return;
        }
        if state.push(Line { text, reports: 0 }, capacity) {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Writes lines as long as the process lives.
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

    /// Adds a line; returns `false` if it was dropped because the queue is full.
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

    /// Counts a dropped line, and again the lines that it would have reported.
    fn lose(&mut self, line: &Line) {
        if line.reports == 0 {
            count_dropped_lines(1);
        }
        self.dropped += line.reports.max(1);
    }

    /// Returns the next line, if any, and the text that shows it and the status line.
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

    /// Counts a line that could not be written. After one that could, the lines that were dropped before are
    /// reported.
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

/// Writes all of `bytes`. Waits if the descriptor is non-blocking and accepts nothing now.
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
    fn lines_that_cannot_be_written_are_reported_once_one_can() {
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
    fn report_that_cannot_be_written_stays_counted() {
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
