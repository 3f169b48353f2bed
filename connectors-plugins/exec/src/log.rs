//! Lines that a process writes to be read by people.

use std::{os::fd::OwnedFd, sync::Arc};

use tremor_pdk::{Counter, Host, Registered, Task, yield_now};

use crate::latch::Latch;

/// How much of a line is logged, in bytes.
const LINE: usize = 1_024;

/// How many lines are logged within [`WINDOW_NS`].
const LINES: u32 = 100;

/// In ns.
const WINDOW_NS: u64 = 10_000_000_000;

/// How much is read at once, in bytes.
const READ: usize = 4_096;

/// After how many reads in a row others may run.
const READS: usize = 16;

/// Reads a pipe to its end, as long as it is kept, and logs its lines.
#[derive(Debug)]
pub(crate) struct Logger {
    /// Set at the end of the pipe.
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

/// Cuts lines, and logs so many of them.
struct Lines {
    host: Host,
    name: &'static str,
    /// What there is of a line, [`LINE`] bytes at most.
    line: Vec<u8>,
    /// How much more of it there was.
    cut: usize,
    logged: u32,
    left_out: u64,
    /// Since when lines are counted.
    since_ns: u64,
    all_left_out: Counter,
}

impl Lines {
    fn new(host: Host, name: &'static str) -> Self {
        let all_left_out =
            host.counter("log_lines_left_out", "Lines of the process that were not logged.");
        let since_ns = host.monotonic_ns();
        Self {
            host,
            name,
            line: Vec::new(),
            cut: 0,
            logged: 0,
            left_out: 0,
            since_ns,
            all_left_out,
        }
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

    /// Logs the line, if there is one, unless there were too many.
    fn log(&mut self) {
        let now_ns = self.host.monotonic_ns();
        if now_ns.abs_diff(self.since_ns) >= WINDOW_NS {
            self.tell_left_out();
            (self.logged, self.since_ns) = (0, now_ns);
        }
        let cut = std::mem::take(&mut self.cut);
        if self.logged >= LINES {
            self.left_out += 1;
            self.all_left_out.add(1);
        } else if !self.line.is_empty() {
            self.logged += 1;
            let text = readable(&self.line);
            match cut {
                0 => tremor_pdk::info!(self.host, "{}: {text}", self.name),
                _ => tremor_pdk::info!(self.host, "{}: {text}… ({cut} more bytes)", self.name),
            }
        }
        self.line.clear();
    }

    fn tell_left_out(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            tremor_pdk::info!(
                self.host,
                "{}: {left_out} more lines, which are not logged",
                self.name
            );
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.log();
        }
        self.tell_left_out();
    }
}

/// Text for a terminal: what would move its cursor or change its colours is written out.
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

    use super::{LINE, LINES, Lines, WINDOW_NS};

    fn logged(test: &TestHost) -> Vec<String> {
        test.log().into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn lines_are_put_together_and_a_long_one_is_cut() {
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
    fn a_process_that_writes_without_end_does_not_fill_the_log() {
        let test = TestHost::new();
        let mut lines = Lines::new(test.host(), "stderr");
        let all = LINES as usize + 7;
        lines.push("again\n".repeat(all).as_bytes());
        assert_eq!(logged(&test).len(), LINES as usize);
        test.advance(std::time::Duration::from_nanos(WINDOW_NS));
        lines.push(b"later\n");
        let logged = logged(&test);
        assert_eq!(
            logged[LINES as usize..],
            ["stderr: 7 more lines, which are not logged", "stderr: later"]
        );
        assert_eq!(test.metric("log_lines_left_out"), Some(7.0));
    }
}
