//! A process, from its start to its end.

use std::{
    fmt, io,
    os::fd::OwnedFd,
    process::Child,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use tremor_pdk::{Descriptors, ErrorPolicy, Registered, Task, lock, net::within, prelude::*};

use crate::{
    config::{Config, Restart},
    latch::{Latch, Waiter},
    log::Logger,
};

/// Maximum time for a process to end after SIGTERM. The sum of all waits when a process is ended is
/// less than the five seconds that the runtime allows for `close`.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// Maximum time for child processes to end after the process has ended. After that they are killed.
const LEFT_OVER: Duration = Duration::from_millis(500);

/// Time between two polls of the process if the system has no process descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The process ended with this exit status.
    Status(i32),
    /// This signal ended the process.
    Signal(i32),
    /// The result is unknown, because other code has reaped the process.
    Unknown,
}

impl Exit {
    pub(crate) fn is_success(self) -> bool {
        self == Self::Status(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "ended with exit status {status}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
            Self::Unknown => f.write_str("ended for an unknown reason"),
        }
    }
}

/// A started process. Its displayed form is the command and the process number.
pub(crate) struct Process {
    pub(crate) host: Host,
    pub(crate) config: Arc<Config>,
    /// Origin of the events.
    pub(crate) name: String,
    /// Set when the process has ended.
    pub(crate) exited: Arc<Latch<Exit>>,
    /// Set when the source returns no more output.
    pub(crate) output_ended: Latch<()>,
    stderr: Logger,
    _waits: Task,
    group: Group,
}

/// A started process and its pipes.
pub(crate) struct Started {
    pub(crate) process: Arc<Process>,
    pub(crate) stdin: Registered<OwnedFd>,
    pub(crate) stdout: Registered<OwnedFd>,
}

impl Process {
    pub(crate) async fn start(config: Arc<Config>, context: &ComponentContext) -> Result<Started> {
        let host: Host = context.clone().into();
        let mut command = config.command(&host);
        let starts = host.clone();
        // Start the process on a thread that may block, because the file system of the program may
        // not respond. If this future is dropped meanwhile, the result is dropped, which ends the
        // process.
        let started = host.blocking(move || command.spawn().map(|it| Group::new(it, starts)));
        let mut group = started.await?.map_err(|error| config.cannot_start(&host, &error))?;
        let descriptors = Descriptors::new(&host)?;
        let [stdin, stdout, stderr] = group.pipes()?.map(|pipe| {
            rustix::io::ioctl_fionbio(&pipe, true)?;
            descriptors.register(pipe)
        });
        let (stdin, stdout, stderr) = (stdin?, stdout?, stderr?);
        let exited = Arc::new(Latch::default());
        let process = Arc::new(Self {
            name: config.command.clone(),
            stderr: Logger::start(&host, stderr, "stderr"),
            _waits: wait_for(&host, &descriptors, group.pid, exited.clone()),
            output_ended: Latch::default(),
            host,
            config,
            exited,
            group,
        });
        let started = process.host.counter("processes_started", "Processes that were started.");
        started.add(1);
        tremor_pdk::debug!(process.host, "started {process}");
        Ok(Started { process, stdin, stdout })
    }

    /// Returns how the process ended, if it ends within `time`.
    pub(crate) async fn exits_within(&self, time: Duration, waiter: Waiter) -> Option<Exit> {
        within(&self.host, time, self.exited.wait(waiter)).await
    }

    /// Returns the error for the end of the process, depending on `restart`: an error that restarts
    /// the process, or a final one. Returns `None` if the connector ends without an error.
    pub(crate) fn verdict(&self, exit: Exit) -> Option<Error> {
        match self.config.restart {
            Restart::Never | Restart::OnFailure if exit.is_success() => None,
            Restart::Never => {
                let message =
                    format!("{self} {exit} and is not restarted, because `restart: never` is set");
                Some(Error::connection_lost(message).with_policy(ErrorPolicy::GIVE_UP))
            }
            Restart::Always | Restart::OnFailure => {
                Some(Error::connection_lost(format!("{self} {exit}")))
            }
        }
    }

    /// Returns the error of a delivery to the process after it has ended.
    pub(crate) fn undeliverable(&self, exit: Exit) -> Error {
        self.verdict(exit).unwrap_or_else(|| {
            let message = format!(
                "{self} {exit} and accepts no more events; set `restart: always` to restart it"
            );
            Error::connection_lost(message).with_policy(ErrorPolicy::GIVE_UP)
        })
    }

    /// Returns the error of a process that failed after the last event. All events were written to
    /// the process before it failed, so none can be redelivered.
    pub(crate) fn failed_at_the_end(&self, exit: Exit) -> Error {
        let message = format!(
            "{self} {exit} after it had received all events: it may not have processed them"
        );
        Error::internal(message).with_policy(ErrorPolicy::GIVE_UP)
    }

    /// Ends the process and its children: waits for up to `patience`, then sends SIGTERM, and
    /// finally sends SIGKILL to the remaining processes.
    pub(crate) async fn end(&self, patience: Duration) {
        let mut exit = self.exited.get();
        if exit == Some(Exit::Unknown) {
            // Do not send signals: the process was reaped elsewhere, so its number may belong to
            // another process now.
            return self.group.forget();
        }
        if exit.is_none() && !patience.is_zero() {
            exit = self.exits_within(patience, Waiter::Connector).await;
        }
        // Child processes may need the signal even if the process has ended.
        self.group.signal(Signal::TERM);
        if exit.is_none() && self.exits_within(AFTER_TERM, Waiter::Connector).await.is_none() {
            tremor_pdk::warn!(
                self.host,
                "killing {self}, which did not end within {AFTER_TERM:?} after SIGTERM"
            );
            self.group.signal(Signal::KILL);
            self.exited.wait(Waiter::Connector).await;
        }
        // Wait for the last log lines. The pipe ends when the last process that has it open ends.
        let _ = within(&self.host, LEFT_OVER, self.stderr.has_ended.wait(Waiter::Connector)).await;
        self.group.signal(Signal::KILL);
        self.group.reap();
    }
}

/// The task that ends the process of a connection. It starts when the last half of the connection
/// is dropped.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Set when the process has ended.
    has_ended: Arc<Latch<()>>,
    task: Mutex<Option<Task>>,
}

impl Ending {
    pub(crate) async fn wait(&self) {
        self.has_ended.wait(Waiter::Connector).await;
    }
}

/// Ends the process of a connection when the last half of the connection is dropped. If the
/// connector no longer exists, nobody waits for the task that ends the process, and the process is
/// killed.
#[derive(Debug)]
pub(crate) struct Lease {
    process: Arc<Process>,
    patience: Duration,
    ending: Weak<Ending>,
}

impl Lease {
    pub(crate) fn new(
        process: Arc<Process>,
        patience: Duration,
        ending: &Arc<Ending>,
    ) -> Arc<Self> {
        Arc::new(Self { process, patience, ending: Arc::downgrade(ending) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(ending) = self.ending.upgrade() else { return };
        let (process, patience) = (self.process.clone(), self.patience);
        let has_ended = ending.has_ended.clone();
        let task = self.process.host.spawn("ends a process", async move {
            process.end(patience).await;
            has_ended.set(());
        });
        *lock(&ending.task) = Some(task);
    }
}

/// Starts a task that waits for the end of a process without reaping it.
fn wait_for(host: &Host, descriptors: &Descriptors, pid: Pid, exited: Arc<Latch<Exit>>) -> Task {
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
    let handle = handle.and_then(|handle| descriptors.register(handle).ok());
    let sleeper = host.clone();
    host.spawn("waits for a process", async move {
        let exit = loop {
            if let Some(handle) = &handle
                && let Ok(exit) =
                    handle.read_with(|_| exit_of(pid).ok_or(io::ErrorKind::WouldBlock.into())).await
            {
                break exit;
            }
            if let Some(exit) = exit_of(pid) {
                break exit;
            }
            sleeper.sleep(POLL_INTERVAL).await;
        };
        exited.set(exit);
    })
}

/// Returns how a process ended, or `None` if it runs. Does not reap the process, so that no other
/// process or group can get its number.
fn exit_of(pid: Pid) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        Ok(None) | Err(rustix::io::Errno::INTR) => None,
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Some(Exit::Status(status)),
            (None, Some(signal)) => Some(Exit::Signal(signal)),
            (None, None) => None,
        },
        // The process was reaped by other code that waits for all children, or by the system
        // because SIGCHLD is ignored.
        Err(_) => Some(Exit::Unknown),
    }
}

/// A process and its children. Dropping the group before the process has ended kills and reaps the
/// process.
struct Group {
    /// The process; `None` once it is reaped.
    child: Mutex<Option<Child>>,
    pid: Pid,
    host: Host,
}

impl Group {
    fn new(child: Child, host: Host) -> Self {
        let pid = Pid::from_child(&child);
        Self { child: Mutex::new(Some(child)), pid, host }
    }

    /// Returns standard input, output and error output.
    fn pipes(&mut self) -> Result<[OwnedFd; 3]> {
        let pipes = lock(&self.child).as_mut().and_then(|it| {
            Some([it.stdin.take()?.into(), it.stdout.take()?.into(), it.stderr.take()?.into()])
        });
        pipes.ok_or_else(|| Error::internal("a process was started without pipes"))
    }

    /// Sends a signal to all processes of the group.
    fn signal(&self, signal: Signal) {
        let child = lock(&self.child);
        // After the process was reaped, its number may belong to another process.
        if child.is_some() {
            // An error means that no process of the group is left.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Drops the handle of the process without reaping it, because it was reaped elsewhere.
    fn forget(&self) {
        *lock(&self.child) = None;
    }

    /// Reaps the process if it has ended.
    fn reap(&self) {
        let mut child = lock(&self.child);
        if let Some(it) = &mut *child
            && !matches!(it.try_wait(), Ok(None))
        {
            *child = None;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.reap();
        let child = lock(&self.child).take();
        if let Some(mut child) = child {
            // Reap the process on a thread that may block, because the process does not end
            // immediately.
            drop(self.host.blocking(move || drop(child.wait())));
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (process {})", self.config.command, self.group.pid.as_raw_nonzero())
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
