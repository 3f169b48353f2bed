//! A child process with a deadline.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// More than this of a child's output is not read. Bytes.
const OUTPUT: u64 = 16 << 20;

/// How a child ended.
#[derive(Debug)]
pub(super) enum Finished {
    /// By itself.
    Exited { status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8> },
    /// It was killed when its time was over.
    TimedOut,
}

/// Runs `program` with `input` on its standard input until it exits, or kills it after `timeout`.
///
/// # Errors
/// Where the program cannot be started.
pub(super) fn run(
    program: &Path,
    arguments: &[OsString],
    input: Vec<u8>,
    timeout: Duration,
) -> io::Result<Finished> {
    let deadline = Instant::now() + timeout;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that does not read its input has its reasons.
        thread::spawn(move || stdin.write_all(&input));
    }
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let stdout = received(stdout, deadline);
    let status = exit_status(&mut child, deadline)?;
    let stderr = received(stderr, deadline);
    Ok(match (status, stdout, stderr) {
        (Some(status), Some(stdout), Some(stderr)) => Finished::Exited { status, stdout, stderr },
        _ => Finished::TimedOut,
    })
}

/// Reads all of a child's output on a thread of its own: a full pipe would stop the child.
fn collect(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        let _ = output.by_ref().take(OUTPUT).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// The output, once it has ended; `None` if that takes too long.
fn received(output: Option<Receiver<Vec<u8>>>, deadline: Instant) -> Option<Vec<u8>> {
    let left = deadline.saturating_duration_since(Instant::now());
    output?.recv_timeout(left).ok()
}

/// How the child exited; `None` if it had to be killed.
fn exit_status(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        // A child whose output has ended is as good as gone, so this is short.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{path::Path, time::Duration};

    use super::{Finished, run};

    fn shell(script: &str, input: &str, timeout: Duration) -> Finished {
        run(Path::new("/bin/sh"), &["-c".into(), script.into()], input.into(), timeout).unwrap()
    }

    #[test]
    fn output_and_status_of_a_child_are_told_however_much_it_writes() {
        let script = "read line; echo \"$line\"; head -c 300000 /dev/zero >&2; exit 3";
        let finished = shell(script, "hello\n", Duration::from_secs(60));
        let Finished::Exited { status, stdout, stderr } = finished else { panic!("timed out") };
        assert_eq!((status.code(), &stdout[..], stderr.len()), (Some(3), &b"hello\n"[..], 300_000));
    }

    #[test]
    fn a_child_that_hangs_is_killed_whether_or_not_it_has_closed_its_output() {
        for script in ["exec sleep 600", "exec >&- 2>&-; exec sleep 600"] {
            let finished = shell(script, "", Duration::from_millis(100));
            assert!(matches!(finished, Finished::TimedOut), "{script}: {finished:?}");
        }
    }
}
