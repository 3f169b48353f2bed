//! A child process with a deadline.

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

/// More than this of a child's output is not read. Bytes.
const OUTPUT: usize = 16 << 20;

/// How long is waited at first until a child is looked at again, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(20));

/// How a child ended, and what it wrote.
#[derive(Debug)]
pub(in crate::plugin) struct Finished {
    /// None where it was killed when its time was over.
    pub(in crate::plugin) status: Option<ExitStatus>,
    pub(in crate::plugin) stdout: Vec<u8>,
    pub(in crate::plugin) stderr: Vec<u8>,
}

/// Runs `program` with `input` on its standard input until it exits, or kills it after `timeout`. That
/// begins anew with each line of its output that starts with `heartbeat`.
///
/// What counts is the child: processes that it has started and left behind may keep its output open
/// for as long as they like.
///
/// # Errors
/// Where the program cannot be started, or not be waited for.
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
            let heard = stdout.lines().filter(|line| line.starts_with(heartbeat)).count();
            if heard > beats {
                (beats, started) = (heard, Instant::now());
            }
        }
        let left = timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            child.kill()?;
            child.wait()?;
            break None;
        }
        // A child whose output has ended is as good as gone.
        pause = if has_moved { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
        pipes.wait(pause.min(left))?;
    };
    // What it wrote last.
    pipes.transfer();
    Ok(Finished { status, stdout: pipes.stdout.bytes, stderr: pipes.stderr.bytes })
}

/// What connects a child with this process.
struct Pipes {
    input: Input,
    stdout: Output,
    stderr: Output,
}

impl Pipes {
    /// Those that are open, with what they are to be ready for.
    fn all(&self) -> [Option<(BorrowedFd<'_>, PollFlags)>; 3] {
        let input = self.input.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT));
        let [stdout, stderr] = [&self.stdout, &self.stderr]
            .map(|output| output.pipe.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)));
        [input, stdout, stderr]
    }

    /// Moves what can be moved without waiting. Whether there was anything.
    fn transfer(&mut self) -> bool {
        let Self { input, stdout, stderr } = self;
        [input.write(), stdout.read(), stderr.read()].contains(&true)
    }

    /// Waits until something can be moved, but no longer than this.
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

/// What a child is still to read. Closed once it has it all, or wants no more.
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
                // A child that does not read its input has its reasons.
                Err(_) => self.pipe = None,
            }
        }
        self.written > before
    }
}

/// What a child has written. Closed where that has ended, or is too much.
struct Output {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Output {
    /// Whether there was anything, the end included.
    fn read(&mut self) -> bool {
        let mut block = [0; 8 << 10];
        let mut has_moved = false;
        while let Some(pipe) = &self.pipe {
            match read(pipe, &mut block) {
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Ok(length @ 1..) if self.bytes.len() < OUTPUT => {
                    self.bytes.extend_from_slice(&block[..length]);
                    has_moved = true;
                }
                // What was read before an error is all there is.
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
    fn output_and_status_of_a_child_are_told_however_much_it_writes() {
        let script = "read line; echo \"$line\"; head -c 300000 /dev/zero >&2; exit 3";
        let finished = shell(script, "hello\n", Duration::from_mins(1));
        let Finished { status, stdout, stderr } = finished;
        let code = status.and_then(|status| status.code());
        assert_eq!((code, &stdout[..], stderr.len()), (Some(3), &b"hello\n"[..], 300_000));
    }

    #[test]
    fn a_child_that_leaves_a_process_behind_is_not_waited_for_longer_than_it_runs() {
        // The process that is left behind has the output open, and says who it is.
        let script = "sleep 600 & echo $!; echo done >&2";
        let finished = shell(script, "", Duration::from_secs(500));
        assert!(finished.is_success());
        let left_behind = String::from_utf8(finished.stdout).unwrap();
        assert!(shell(&format!("kill {left_behind}"), "", Duration::from_mins(1)).is_success());
        assert_eq!(finished.stderr, b"done\n");
    }

    #[test]
    fn a_child_gets_all_of_its_input_and_need_not_read_it() {
        let input = "x".repeat(1 << 20);
        let counted = shell("wc -c", &input, Duration::from_mins(1));
        assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), "1048576");
        assert!(shell("exec <&-; sleep 0.01", &input, Duration::from_mins(1)).is_success());
    }

    #[test]
    fn a_child_that_hangs_is_killed_whether_or_not_it_has_closed_its_output() {
        for script in ["exec sleep 600", "exec >&- 2>&-; exec sleep 600"] {
            let finished = shell(script, "", Duration::from_millis(100));
            assert!(finished.status.is_none(), "{script}: {finished:?}");
        }
    }
}
