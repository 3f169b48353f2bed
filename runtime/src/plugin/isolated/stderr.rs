//! Standard error of a plugin's process: its lines go to the log, and the last ones explain its end.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{self, Read},
    process::ChildStderr,
    sync::Mutex,
    time::{Duration, Instant},
};

use tremor_abi::host::LogLevel;
use tremor_pdk::lock;

use crate::{
    clock::Clock,
    executor::{self, Watched},
    plugin::HostContext,
};

/// Maximum length of a line in the log, in bytes. What follows is discarded.
const MAX_LINE: usize = 2_048;
/// Number of lines that are kept for the error after the end of the process.
const LAST: usize = 3;
/// Maximum number of lines that are logged in each [`WINDOW`].
const LINES: usize = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read in one turn.
const MAX_TURN: usize = 256 << 10;

/// Reader of the standard error of a process.
pub(super) struct Stderr {
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    pipe: ChildStderr,
    lines: Lines,
    has_ended: bool,
}

/// Lines of a stream of bytes.
struct Lines {
    /// Beginning of the current line, at most [`MAX_LINE`] bytes.
    line: Vec<u8>,
    last: VecDeque<String>,
    window: Instant,
    /// Lines that were logged, and lines that were discarded, since the beginning of the window.
    counts: [usize; 2],
}

impl Stderr {
    /// Creates the reader of a pipe, which must be non-blocking.
    pub(super) fn new(pipe: ChildStderr, clock: Clock) -> Self {
        let lines = Lines::new(clock.now());
        Self { clock, state: Mutex::new(State { pipe, lines, has_ended: false }) }
    }

    /// Logs lines until the pipe ends.
    pub(super) async fn log(&self, host: &HostContext, mut readable: Watched) {
        while !self.read(host) {
            if poll_fn(|context| readable.poll_ready(context)).await.is_err() {
                return;
            }
            executor::yield_now().await;
        }
    }

    /// Logs lines that have arrived, without waiting. Returns whether the pipe has ended.
    pub(super) fn read(&self, host: &HostContext) -> bool {
        let State { pipe, lines, has_ended } = &mut *lock(&self.state);
        let (mut buffer, mut total) = ([0; 4_096], 0);
        while !*has_ended && total < MAX_TURN {
            match pipe.read(&mut buffer) {
                Ok(len @ 1..) => {
                    total += len;
                    let now = self.clock.now();
                    lines.add(&buffer[..len], now, |line| {
                        host.write_log(LogLevel::INFO, &format!("stderr: {line}"));
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => *has_ended = true,
            }
        }
        *has_ended
    }

    /// Returns the last lines, for a message about the end of the process; empty if there are none.
    pub(super) fn last(&self, host: &HostContext) -> String {
        self.read(host);
        let lines = &mut lock(&self.state).lines;
        lines.end(|line| host.write_log(LogLevel::INFO, &format!("stderr: {line}")));
        lines.last.iter().cloned().collect::<Vec<_>>().join(" / ")
    }
}

impl Lines {
    fn new(now: Instant) -> Self {
        Self { line: Vec::new(), last: VecDeque::new(), window: now, counts: [0; 2] }
    }

    /// Adds bytes, and calls `log` for each line that they complete.
    fn add(&mut self, bytes: &[u8], now: Instant, mut log: impl FnMut(&str)) {
        if now.saturating_duration_since(self.window) >= WINDOW {
            self.report(&mut log);
            (self.window, self.counts) = (now, [0; 2]);
        }
        let mut left = bytes;
        while let Some(end) = memchr::memchr(b'\n', left) {
            self.extend(&left[..end]);
            self.end_line(&mut log);
            left = &left[end + 1..];
        }
        self.extend(left);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let free = MAX_LINE - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(free)]);
    }

    fn end_line(&mut self, log: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.line).trim().to_owned();
        self.line.clear();
        if text.is_empty() {
            return;
        }
        if self.counts[0] < LINES {
            self.counts[0] += 1;
            log(&text);
        } else {
            self.counts[1] += 1;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }

    /// Logs the number of discarded lines.
    fn report(&mut self, log: &mut impl FnMut(&str)) {
        let discarded = std::mem::take(&mut self.counts[1]);
        if discarded > 0 {
            log(&format!("{discarded} more lines: the log has at most {LINES} lines a second"));
        }
    }

    /// Ends the last line, which may lack a line feed.
    fn end(&mut self, mut log: impl FnMut(&str)) {
        self.end_line(&mut log);
        self.report(&mut log);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{LINES, Lines, MAX_LINE, WINDOW};

    #[test]
    fn lines_are_logged_and_the_last_ones_are_kept() {
        let now = Instant::now();
        let (mut lines, mut logged) = (Lines::new(now), Vec::new());
        for bytes in [&b"a\nb"[..], b"", b"b\n\n  c\r\nd\n", b"e"] {
            lines.add(bytes, now, |line| logged.push(line.to_owned()));
        }
        lines.end(|line| logged.push(line.to_owned()));
        assert_eq!(logged, ["a", "bb", "c", "d", "e"]);
        assert_eq!(lines.last, ["c", "d", "e"]);
    }

    #[test]
    fn flood_is_shortened_and_counted() {
        let now = Instant::now();
        let (mut lines, mut logged) = (Lines::new(now), Vec::new());
        let flood = "x\n".repeat(LINES + 7);
        lines.add(flood.as_bytes(), now, |line| logged.push(line.to_owned()));
        assert_eq!(logged.len(), LINES);
        lines.add(b"y\n", now + WINDOW, |line| logged.push(line.to_owned()));
        assert_eq!(logged[LINES..], ["7 more lines: the log has at most 100 lines a second", "y"]);
        let long = vec![b'z'; 10 * MAX_LINE];
        lines.add(&long, now, |_| panic!("a line without an end was logged"));
        lines.end(|line| logged.push(line.to_owned()));
        assert_eq!(logged.last().unwrap().len(), MAX_LINE);
    }
}
