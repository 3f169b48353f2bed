//! A limit on the time of a step: what hangs is ended and named, and the steps after it still run.

use std::fs;
use std::process::{self, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

/// Does `work`, and ends the processes that it has started and that still run after `limit`.
///
/// A process is found by its parents, which takes `/proc`: there is no limit where that is missing.
///
/// # Errors
/// `work` fails, of itself or since its processes were ended; in that case the error names them.
pub(super) fn within<T>(limit: Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let end = || descendants(process::id()).into_iter().map(Process::end).collect();
    watched(limit, work, end)
}

/// Does `work`, and calls `end`, which names what it has ended, after `limit` and each second from then on.
fn watched<T>(
    limit: Duration,
    work: impl FnOnce() -> Result<T>,
    end: impl Fn() -> Vec<String> + Send + 'static,
) -> Result<T> {
    let (done, is_done) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let mut ended = Vec::new();
        let mut wait = limit;
        // One that starts another is ended before that other is seen.
        while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            ended.extend(end());
            wait = Duration::from_secs(1);
        }
        ended
    });
    let result = work();
    drop(done);
    let ended = watch.join().map_err(|_| anyhow!("the watch over the time has panicked"))?;
    if ended.is_empty() {
        return result;
    }
    let why = format!("took longer than {limit:?}; what ran then was ended: {}", ended.join(", "));
    result.and_then(|_| Err(anyhow!("it ended well, but too late"))).context(why)
}

/// A process that this one has started, or that one of those has.
struct Process {
    id: u32,
    parent: u32,
    /// Its arguments, as `/proc` has them.
    command: String,
}

impl Process {
    fn of(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name is in parentheses and may have some itself; the state and the parent follow.
        let (_, after) = stat.rsplit_once(')')?;
        let mut after = after.split_whitespace();
        // One that has ended and that nobody has waited for is none any more.
        after.next().filter(|state| *state != "Z")?;
        let parent = after.next()?.parse().ok()?;
        let command = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
        Some(Self { id, parent, command })
    }

    /// Kills it. What it was.
    fn end(self) -> String {
        // It may have ended by itself since.
        let _ = Command::new("kill").args(["-KILL", &self.id.to_string()]).output();
        format!("`{}`", self.command)
    }
}

/// The processes that this one has started, and those that they have.
fn descendants(id: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<_> = ids.filter_map(Process::of).collect();
    let mut found = Vec::new();
    let mut parents = vec![id];
    while let Some(parent) = parents.pop() {
        let (children, rest) = others.into_iter().partition(|it: &Process| it.parent == parent);
        others = rest;
        parents.extend(children.iter().map(|child| child.id));
        found.extend::<Vec<_>>(children);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_takes_too_long_is_ended_and_named() {
        let (end, is_ended) = mpsc::channel();
        let hang = || Err::<(), _>(anyhow!("{}", is_ended.recv().expect("it is ended")));
        let kill = move || {
            let _ = end.send("killed");
            vec!["`sleep`".to_owned()]
        };
        let error = watched(Duration::from_millis(10), hang, kill).expect_err("it hangs");
        let expected = "took longer than 10ms; what ran then was ended: `sleep`";
        assert!(format!("{error:#}").starts_with(expected), "{error:#}");
        assert!(format!("{error:#}").ends_with(": killed"), "{error:#}");
    }

    #[test]
    fn what_ends_in_time_is_as_it_is() {
        let end = || vec!["`sleep`".to_owned()];
        assert_eq!(watched(Duration::from_mins(1), || Ok(7), end).ok(), Some(7));
        let error = watched(Duration::from_mins(1), || Err::<(), _>(anyhow!("red")), end);
        assert_eq!(error.map_err(|error| error.to_string()), Err("red".to_owned()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_process_has_started_is_found_and_ended() {
        let mut command = Command::new("sh");
        // The second shell says when its child is there, which may not be `sleep` yet.
        command.args(["-c", "sh -c 'sleep 86399 & echo; wait'; true"]).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("there is a shell");
        let mut line = String::new();
        let mut output = BufReader::new(shell.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("it says so");
        let ended: Vec<_> = descendants(shell.id()).into_iter().map(Process::end).collect();
        assert_eq!(ended.len(), 2, "{ended:?}");
        assert!(shell.wait().expect("it ends").success());
        // Each of them held the pipe.
        assert_eq!(output.read_to_string(&mut line).expect("nobody writes"), 0);
    }
}
