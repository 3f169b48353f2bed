//! The process `journalctl`, from its start to its end.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::{Child, ExitStatus},
    sync::Arc,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tremor_pdk::{Descriptors, LimitedLog, Registered, info, prelude::*};

use crate::{
    Config,
    entries::Entries,
    point::{Point, Position},
};

/// Maximum time for a process to end after the end of its output. After that the process is killed.
const AFTER_OUTPUT: Duration = Duration::from_secs(2);
/// Time between two polls of a process that has closed its output.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of reads of standard error in a row, so that a flood of messages does not delay entries.
const READS: usize = 4;
/// Maximum number of bytes of a line of standard error that are logged.
const LINE: usize = 1_024;
/// Maximum number of lines that are logged within [`WINDOW`].
const LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);
/// Part of the hint of `journalctl` that the user may not read all entries.
const RESTRICTED: &str = "not seeing messages from other users";
/// Messages of `journalctl` about invalid arguments, which a retry cannot fix, each with the
/// remedy.
const FINAL: [(&str, &str); 2] = [
    ("Failed to parse timestamp", "set `since` to a time that `journalctl --since` accepts"),
    ("Failed to seek to cursor", "delete the checkpoint to start according to `since`"),
];

/// A started process. It is killed and reaped when it is dropped.
pub(crate) struct Process {
    stdout: Registered<OwnedFd>,
    stderr: Option<Registered<OwnedFd>>,
    messages: Messages,
    group: Group,
    config: Arc<Config>,
}

impl Process {
    /// Starts `journalctl` at a position.
    pub(crate) async fn start(config: Arc<Config>, host: Host, from: Position) -> Result<Self> {
        let mut command = config.command(&host, &from.point);
        let starts = host.clone();
        // Start the process on a thread that may block, because the file system of the program may not respond. If this
        // future is dropped meanwhile, the result is dropped, which ends the process.
        let started = host.blocking(move || {
            command.spawn().map(|child| Group { child: Some(child), host: starts })
        });
        let mut group = started.await?.map_err(|error| config.cannot_start(&error))?;
        let child = group.child.as_mut();
        let pipes = child.and_then(|it| Some([it.stdout.take()?.into(), it.stderr.take()?.into()]));
        let pipes: [OwnedFd; 2] =
            pipes.ok_or_else(|| Error::internal("a process was started without pipes"))?;
        let descriptors = Descriptors::new(&host)?;
        let [stdout, stderr] = pipes.map(|pipe| {
            rustix::io::ioctl_fionbio(&pipe, true)?;
            descriptors.register(pipe)
        });
        let messages = Messages::new(&host);
        Ok(Self { stdout: stdout?, stderr: Some(stderr?), messages, group, config })
    }

    /// Reads output into `entries`, and logs the messages of the process. Returns the number of bytes of output; 0 at
    /// its end.
    pub(crate) fn poll_read(
        &mut self,
        context: &Context<'_>,
        entries: &mut Entries,
    ) -> Poll<io::Result<usize>> {
        self.poll_messages(context);
        self.stdout.poll_read_with(context, |pipe| {
            entries.fill(|space| Ok(rustix::io::read(pipe, space)?))
        })
    }

    /// Returns whether the process has reported that it may not read all entries.
    pub(crate) fn is_restricted(&self) -> bool {
        self.messages.is_restricted
    }

    /// Logs the messages that the process has written to its standard error.
    fn poll_messages(&mut self, context: &Context<'_>) {
        let mut bytes = [0; 4_096];
        for _ in 0..READS {
            let Some(stderr) = &self.stderr else { return };
            let read =
                stderr.poll_read_with(context, |pipe| Ok(rustix::io::read(pipe, &mut bytes)?));
            match read {
                Poll::Pending => return,
                Poll::Ready(Ok(count)) if count > 0 => self.messages.push(&bytes[..count]),
                Poll::Ready(_) => self.stderr = None,
            }
        }
        context.waker().wake_by_ref();
    }

    /// Returns a blocking function that waits for the end of a process that has closed its output, reads the remaining
    /// messages, and returns the error of the process; `None` if it succeeded.
    pub(crate) fn end(mut self) -> impl FnOnce() -> Option<Error> + Send + 'static {
        move || {
            let status = self.group.end(AFTER_OUTPUT);
            let mut bytes = [0; 4_096];
            if let Some(stderr) = &self.stderr {
                while let Ok(count @ 1..) = rustix::io::read(stderr.get_ref(), &mut bytes) {
                    self.messages.push(&bytes[..count]);
                }
            }
            self.messages.end();
            self.error(&status)
        }
    }

    /// Kills and reaps the process. Blocks until the process was reaped.
    pub(crate) fn kill(mut self) {
        // An error means that other code has reaped the process.
        let _ = self.group.end(Duration::ZERO);
    }

    fn error(&self, status: &io::Result<ExitStatus>) -> Option<Error> {
        let end = match status {
            Ok(status) if status.success() && !self.config.follow => return None,
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit status {code}"),
                (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
            },
            Err(_) => "ended for an unknown reason".to_owned(),
        };
        let (command, last) = (&self.config.command, &self.messages.last);
        let message = match last.as_str() {
            "" => format!("`{command}` {end}"),
            last => format!("`{command}` {end}: {last}"),
        };
        let fault = FINAL.iter().find(|(start, _)| last.starts_with(start));
        Some(match fault {
            Some((_, remedy)) => Error::configuration(format!("{message}; {remedy}")),
            None => Error::connection_lost(message),
        })
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("command", &self.config.command).finish_non_exhaustive()
    }
}

/// A process with its process group. Dropping the group kills and reaps the process.
struct Group {
    /// The process; `None` once it is reaped.
    child: Option<Child>,
    host: Host,
}

impl Group {
    /// Waits for the end of the process, at most for `patience`, then kills and reaps it. May block.
    fn end(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        let Some(mut child) = self.child.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let start = Instant::now();
        while start.elapsed() < patience {
            match child.try_wait() {
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Ok(Some(status)) => return Ok(status),
                Err(error) => return Err(error),
            }
        }
        kill(&child);
        child.wait()
    }
}

/// Kills the processes of the group of a process that is not reaped yet.
fn kill(child: &Child) {
    // An error means that no process of the group is left.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        kill(&child);
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        // Reap the process on a thread that may block, because the process does not end
        // immediately.
        drop(self.host.blocking(move || drop(child.wait())));
    }
}

/// Lines that the process has written to its standard error.
struct Messages {
    log: LimitedLog,
    /// The incomplete line, at most [`LINE`] bytes.
    line: Vec<u8>,
    /// The last complete line.
    last: String,
    /// `true` after the hint that the user may not read all entries.
    is_restricted: bool,
}

impl Messages {
    fn new(host: &Host) -> Self {
        let log = host.limited_log(LINES, WINDOW);
        Self { log, line: Vec::new(), last: String::new(), is_restricted: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end(),
                _ if self.line.len() < LINE => self.line.push(*byte),
                _ => {}
            }
        }
    }

    /// Logs the line, with control characters escaped, unless it is empty.
    fn end(&mut self) {
        if !self.line.is_empty() {
            let text = String::from_utf8_lossy(&self.line);
            let escape =
                |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
            self.last = text.chars().map(escape).collect();
            self.is_restricted |= self.last.contains(RESTRICTED);
            info!(self.log, "journalctl: {}", self.last);
            self.line.clear();
        }
    }
}

/// Returns the cursor of a position. `journalctl --cursor` returns the entry of this cursor again.
pub(crate) fn cursor_of(position: &Position) -> Option<Arc<str>> {
    match &position.point {
        Point::Cursor(cursor) => Some(cursor.clone()),
        Point::Start | Point::Since(_) => None,
    }
}
