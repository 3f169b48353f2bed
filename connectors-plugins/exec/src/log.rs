//! Logs output of a process that is not read as events.

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use tremor_pdk::{Counter, Host, LimitedLog, Registered, Task, yield_now};

use crate::latch::Latch;

/// Maximum number of bytes of a line that are logged.
const LINE: usize = 1_024;

/// Maximum number of lines that are logged within [`WINDOW`].
const LINES: u32 = 100;

const WINDOW: Duration = Duration::from_secs(10);

/// Maximum number of bytes per read.
const READ: usize = 4_096;

/// Number of reads in a row before the task yields to other tasks.
const READS: usize = 16;

/// Reads a pipe and logs its lines, until the pipe ends or the logger is dropped.
#[derive(Debug)]
pub(crate) struct Logger {
    /// Set when the pipe has ended.
    pub(crate) has_ended: Arc<Latch<()>>,
    _task: Task,
}

impl Logger {
    pub(crate) fn start(host: &Host, pipe: Registered<OwnedFd>, name: &'static str) -> Self {
        let has_ended = Arc::new(Latch::default());
        let (ended, lines) = (has_ended.clone(), Lines::new(host.clone(), name));
        let task = host.spawn(&format!("reads {name}"), async move {
            read(&pipe, lines).await;
            drop(pipe);
            ended.set(());
        });
        Self { has_ended, _task: task }
    }
}

async fn read(pipe: &Registered<OwnedFd>, mut lines: Lines) {
    let mut bytes = [0; READ];
    for count in 1.. {
        let read = pipe.read_with(|pipe| Ok(rustix::io::read(pipe, &mut bytes)?)).await;
        match read {
            Ok(0) | Err(_) => break,
            Ok(count) => lines.push(&bytes[..count]),
        }
        if count % READS == 0 {
            yield_now().await;
        }
    }
    lines.end();
}

/// Splits the output into lines, and logs them up to a limit.
struct Lines {
    host: Host,
    name: &'static str,
    /// The incomplete line, at most [`LINE`] bytes.
    line: Vec<u8>,
    /// Number of bytes of the line beyond the limit, which are not logged.
    cut: usize,
    limit: LimitedLog,
    suppressed: Counter,
}

impl Lines {
    fn new(host: Host, name: &'static str) -> Self {
        let limit = host.limited_log(LINES, WINDOW);
        let suppressed = host.counter(
            "log_lines_left_out",
            "Lines of the process that were not logged because of the rate limit.",
        );
        Self { host, name, line: Vec::new(), cut: 0, limit, suppressed }
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let kept = text.len().min(LINE - self.line.len());
            self.line.extend_from_slice(&text[..kept]);
            self.cut += text.len() - kept;
            if is_whole {
                self.log();
            }
        }
    }

    /// Logs the line, unless it is empty or exceeds the rate limit.
    fn log(&mut self) {
        let cut = std::mem::take(&mut self.cut);
        if !self.line.is_empty() {
            match self.limit.admit() {
                None => self.suppressed.add(1),
                Some(suppressed) => {
                    self.report(suppressed);
                    let text = readable(&self.line);
                    match cut {
                        0 => tremor_pdk::info!(self.host, "{}: {text}", self.name),
                        _ => {
                            tremor_pdk::info!(
                                self.host,
                                "{}: {text}… ({cut} more bytes)",
                                self.name
                            );
                        }
                    }
                }
            }
        }
        self.line.clear();
    }

    fn report(&self, suppressed: u64) {
        if suppressed > 0 {
            tremor_pdk::info!(self.host, "{}: {suppressed} more lines were not logged", self.name);
        }
    }

    fn end(&mut self) {
        self.log();
        self.report(self.limit.take_suppressed());
    }
}

/// Returns the line as text that is safe to show on a terminal, with control characters escaped.
fn readable(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for character in String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).chars() {
        match character {
            '\t' => text.push(' '),
            it if it.is_control() => text.extend(it.escape_default()),
            it => text.push(it),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use tremor_pdk::testing::TestHost;

    use super::{LINE, LINES, Lines, WINDOW};

    fn logged(test: &TestHost) -> Vec<String> {
        test.log().into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn lines_are_assembled_and_long_ones_truncated() {
        let test = TestHost::new();
        let mut lines = Lines::new(test.host(), "stderr");
        for piece in ["one\ntw", "o\r\n\n\tthr\u{1b}[31mee", "\n"] {
            lines.push(piece.as_bytes());
        }
        lines.push(&vec![b'x'; LINE]);
        lines.push(&vec![b'y'; 3_000]);
        lines.push(b"\n\xff half");
        lines.end();
        let long = format!("stderr: {}… (3000 more bytes)", "x".repeat(LINE));
        let expected = [
            "stderr: one",
            "stderr: two",
            "stderr:  thr\\u{1b}[31mee",
            &long,
            "stderr: \u{fffd} half",
        ];
        assert_eq!(logged(&test), expected);
    }

    #[test]
    fn log_lines_are_rate_limited() {
        let test = TestHost::new();
        let mut lines = Lines::new(test.host(), "stderr");
        let all = LINES as usize + 7;
        lines.push("again\n".repeat(all).as_bytes());
        assert_eq!(logged(&test).len(), LINES as usize);
        test.advance(WINDOW);
        lines.push(b"later\n");
        let logged = logged(&test);
        assert_eq!(
            logged[LINES as usize..],
            ["stderr: 7 more lines were not logged", "stderr: later"]
        );
        assert_eq!(test.metric("log_lines_left_out"), Some(7.0));
    }
}
