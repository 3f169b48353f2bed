//! Child processes with a time limit.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio, read, write},
};

/// Maximum number of bytes that are read from each output of a child.
const MAX_OUTPUT: usize = 16 << 20;

/// Shortest and longest pause between two checks whether a child has exited.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(20));

/// Outcome of a child process, with its output.
#[derive(Debug)]
pub(in crate::plugin) struct Finished {
    /// Exit status; `None` if the child was killed at the time limit.
    pub(in crate::plugin) status: Option<ExitStatus>,
    pub(in crate::plugin) stdout: Vec<u8>,
    pub(in crate::plugin) stderr: Vec<u8>,
}

/// Runs `program` with `input` on its standard input until it exits, or kills it after `timeout`.
///
/// The time starts again with each line of standard output that begins with `heartbeat`.
///
/// Only the child itself is awaited. Processes that the child started may continue and keep its outputs open.
///
/// # Errors
/// The program cannot be started, or waiting for it fails.
pub(in crate::plugin) fn run(
    program: &Path,
    arguments: &[OsString],
    input: Vec<u8>,
    timeout: Duration,
    heartbeat: Option<&str>,
) -> io::Result<Finished> {
    let mut started = Instant::now();
    let mut beats = 0;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut pipes = Pipes {
        input: Input { pipe: child.stdin.take().map(OwnedFd::from), bytes: input, written: 0 },
        stdout: Output { pipe: child.stdout.take().map(OwnedFd::from), bytes: Vec::new() },
        stderr: Output { pipe: child.stderr.take().map(OwnedFd::from), bytes: Vec::new() },
    };
    pipes.all().into_iter().flatten().try_for_each(|(pipe, _)| ioctl_fionbio(pipe, true))?;
    let mut pause = PAUSES.0;
    let status = loop {
        let has_moved = pipes.transfer();
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if let (true, Some(heartbeat)) = (has_moved, heartbeat) {
            let stdout = String::from_utf8_lossy(&pipes.stdout.bytes);
            let seen = stdout.lines().filter(|line| line.starts_with(heartbeat)).count();
            if seen > beats {
                (beats, started) = (seen, Instant::now());
            }
        }
        let left = timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            child.kill()?;
            child.wait()?;
            break None;
        }
        // The end of an output counts as moved data, because a child that closes an output is likely to exit soon.
        pause = if has_moved { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
        pipes.wait(pause.min(left))?;
    };
    // The child may have written between the last transfer and its exit.
    pipes.transfer();
    Ok(Finished { status, stdout: pipes.stdout.bytes, stderr: pipes.stderr.bytes })
}

/// Pipes between a child and this process.
struct Pipes {
    input: Input,
    stdout: Output,
    stderr: Output,
}

impl Pipes {
    /// Returns the open pipes with the events to poll for.
    fn all(&self) -> [Option<(BorrowedFd<'_>, PollFlags)>; 3] {
        let input = self.input.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT));
        let [stdout, stderr] = [&self.stdout, &self.stderr]
            .map(|output| output.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)));
        [input, stdout, stderr]
    }

    /// Transfers as much data as possible without blocking. Returns whether data was transferred.
    fn transfer(&mut self) -> bool {
        let Self { input, stdout, stderr } = self;
        [input.write(), stdout.read(), stderr.read()].contains(&true)
    }

    /// Waits until data can be transferred, for `pause` at most.
    fn wait(&self, pause: Duration) -> io::Result<()> {
        let all = self.all();
        let mut all: Vec<_> = all
            .iter()
            .flatten()
            .map(|(pipe, ready)| PollFd::from_borrowed_fd(*pipe, *ready))
            .collect();
        let pause = Timespec::try_from(pause).map_err(io::Error::other)?;
        match poll(&mut all, Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Standard input of the child, with the data to write. The pipe is closed once all data was written or the child has
/// closed its end.
struct Input {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
    written: usize,
}

impl Input {
    fn write(&mut self) -> bool {
        let before = self.written;
        while let Some(pipe) = &self.pipe {
            let rest = &self.bytes[self.written..];
            match write(pipe, rest) {
                _ if rest.is_empty() => self.pipe = None,
                Ok(written) => self.written += written,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // The child has closed its standard input, which is not an error.
                Err(_) => self.pipe = None,
            }
        }
        self.written > before
    }
}

/// An output of the child. The pipe is closed at the end of the output, or after the maximum size.
struct Output {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Output {
    /// Reads as much data as possible. Returns whether data was read or the end was reached.
    fn read(&mut self) -> bool {
        let mut block = [0; 8 << 10];
        let mut has_moved = false;
        while let Some(pipe) = &self.pipe {
            match read(pipe, &mut block) {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Ok(length @ 1..) if self.bytes.len() < MAX_OUTPUT => {
                    self.bytes.extend_from_slice(&block[..length]);
                    has_moved = true;
                }
                // After an error, the data that was read before is kept.
                Ok(_) | Err(_) => {
                    self.pipe = None;
                    has_moved = true;
                }
            }
        }
        has_moved
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::{Finished, run};

    fn shell(script: &str, input: &str, timeout: Duration) -> Finished {
        run(Path::new("/bin/sh"), &["-c".into(), script.into()], input.into(), timeout, None)
            .unwrap()
    }

    impl Finished {
        fn is_success(&self) -> bool {
            self.status.is_some_and(|status| status.success())
        }
    }

    #[test]
    fn large_output_and_status_of_child_are_returned() {
        let script = "read line; echo \"$line\"; head -c 300000 /dev/zero >&2; exit 3";
        let finished = shell(script, "hello\n", Duration::from_mins(1));
        let Finished { status, stdout, stderr } = finished;
        let code = status.and_then(|status| status.code());
        assert_eq!((code, &stdout[..], stderr.len()), (Some(3), &b"hello\n"[..], 300_000));
    }

    #[test]
    fn process_that_child_leaves_behind_is_not_awaited() {
        // The process that is left behind keeps the output open and reports its process ID.
        let script = "sleep 600 & echo $!; echo done >&2";
        let finished = shell(script, "", Duration::from_secs(500));
        assert!(finished.is_success());
        let left_behind = String::from_utf8(finished.stdout).unwrap();
        assert!(shell(&format!("kill {left_behind}"), "", Duration::from_mins(1)).is_success());
        assert_eq!(finished.stderr, b"done\n");
    }

    #[test]
    fn child_receives_all_input_and_may_ignore_it() {
        let input = "x".repeat(1 << 20);
        let counted = shell("wc -c", &input, Duration::from_mins(1));
        assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), "1048576");
        assert!(shell("exec <&-; sleep 0.01", &input, Duration::from_mins(1)).is_success());
    }

    #[test]
    fn child_that_hangs_is_killed() {
        for script in ["exec sleep 600", "exec >&- 2>&-; exec sleep 600"] {
            let finished = shell(script, "", Duration::from_millis(100));
            assert!(finished.status.is_none(), "{script}: {finished:?}");
        }
    }
}
