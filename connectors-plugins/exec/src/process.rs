//! A process, from its start to its end.

use std::{
    fmt, io,
    os::fd::OwnedFd,
    process::Child,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use tremor_pdk::{Descriptors, ErrorPolicy, Registered, Task, net::within, prelude::*};

use crate::{
    config::{Config, Restart},
    latch::{Latch, Who},
    log::Logger,
};

/// How long a process may take to end after SIGTERM. All that comes before its end and after it fits into
/// the five seconds that the runtime gives to `close`.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// How long what a process has started may take to end after it, before it is killed.
const LEFT_OVER: Duration = Duration::from_millis(500);

/// How often a process is looked at where the system has no descriptors of processes.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(50);

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// Somebody else has asked the system first.
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
            Self::Unknown => f.write_str("has ended in a way that is not known"),
        }
    }
}

/// A process that was started. Shown as its command and its number.
pub(crate) struct Process {
    pub(crate) host: Host,
    pub(crate) config: Arc<Config>,
    /// What its events come from.
    pub(crate) name: String,
    /// Set when it has ended.
    pub(crate) exited: Arc<Latch<Exit>>,
    /// Set when its source brings nothing more.
    pub(crate) output_ended: Latch<()>,
    stderr: Logger,
    _waits: Task,
    group: Group,
}

/// A process with its pipes.
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
        // A file system may not answer. If this is dropped meanwhile, the process is ended.
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
        tremor_pdk::debug!(process.host, "has started {process}");
        Ok(Started { process, stdin, stdout })
    }

    /// How it has ended, if it has by then.
    pub(crate) async fn exits_within(&self, time: Duration, who: Who) -> Option<Exit> {
        within(&self.host, time, self.exited.wait(who)).await
    }

    /// What comes of its end: an error where it is started again or has failed.
    pub(crate) fn verdict(&self, exit: Exit) -> Option<Error> {
        match self.config.restart {
            Restart::Never | Restart::OnFailure if exit.is_success() => None,
            Restart::Never => {
                let message = format!("{self} {exit}, and `restart: never` is set");
                Some(Error::connection_lost(message).with_policy(ErrorPolicy::GIVE_UP))
            }
            Restart::Always | Restart::OnFailure => {
                Some(Error::connection_lost(format!("{self} {exit}")))
            }
        }
    }

    /// What comes of its end while there are events for it.
    pub(crate) fn takes_no_more(&self, exit: Exit) -> Error {
        self.verdict(exit).unwrap_or_else(|| {
            let message = format!(
                "{self} {exit} and takes no more events; with `restart: always` it is started again"
            );
            Error::connection_lost(message).with_policy(ErrorPolicy::GIVE_UP)
        })
    }

    /// What comes of its end after the last event. It has had all of them: nothing can be delivered again.
    pub(crate) fn failed_at_the_end(&self, exit: Exit) -> Error {
        let message =
            format!("{self} {exit} after it had all events: what it did with them is not known");
        Error::internal(message).with_policy(ErrorPolicy::GIVE_UP)
    }

    /// Ends it: after some patience with SIGTERM, then with SIGKILL, and all that it has started with it.
    pub(crate) async fn end(&self, patience: Duration) {
        let mut exit = self.exited.get();
        if exit == Some(Exit::Unknown) {
            // The number may be another's.
            return self.group.forget();
        }
        if exit.is_none() && !patience.is_zero() {
            exit = self.exits_within(patience, Who::Connector).await;
        }
        // What it has started may need to be told, too.
        self.group.signal(Signal::TERM);
        if exit.is_none() && self.exits_within(AFTER_TERM, Who::Connector).await.is_none() {
            tremor_pdk::warn!(self.host, "{self} has not ended after SIGTERM, and is killed");
            self.group.signal(Signal::KILL);
            self.exited.wait(Who::Connector).await;
        }
        // Its last words. The pipe ends with the last process that has it.
        let _ = within(&self.host, LEFT_OVER, self.stderr.has_ended.wait(Who::Connector)).await;
        self.group.signal(Signal::KILL);
        self.group.reap();
    }
}

/// The end of the process of a connection. The end begins when the last half of the connection is dropped.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Set when the process has ended.
    has_ended: Arc<Latch<()>>,
    task: Mutex<Option<Task>>,
}

impl Ending {
    pub(crate) async fn wait(&self) {
        self.has_ended.wait(Who::Connector).await;
    }
}

/// Ends the process of a connection when the last half of the connection is dropped. Without its connector, nobody waits
/// for the process, and it is killed.
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
        *ending.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }
}

/// Waits for the end of a process, which is not reaped by that.
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
            sleeper.sleep(LOOKED_AT_EVERY).await;
        };
        exited.set(exit);
    })
}

/// How a process has ended, if it has. It stays as it is: as long as nobody has reaped it, its number is that
/// of its group.
fn exit_of(pid: Pid) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(pid), options) {
        Ok(None) | Err(rustix::io::Errno::INTR) => None,
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Some(Exit::Status(status)),
            (None, Some(signal)) => Some(Exit::Signal(signal)),
            (None, None) => None,
        },
        // It is reaped: by a process that asks for all of its children, or does not want to know of them.
        Err(_) => Some(Exit::Unknown),
    }
}

/// A process and all that it has started. Killed and reaped if it is dropped before it has ended.
struct Group {
    /// None once it is reaped.
    child: Mutex<Option<Child>>,
    pid: Pid,
    host: Host,
}

impl Group {
    fn new(child: Child, host: Host) -> Self {
        let pid = Pid::from_child(&child);
        Self { child: Mutex::new(Some(child)), pid, host }
    }

    /// Its standard input, output and error output.
    fn pipes(&mut self) -> Result<[OwnedFd; 3]> {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let pipes = child.and_then(|it| {
            Some([it.stdin.take()?.into(), it.stdout.take()?.into(), it.stderr.take()?.into()])
        });
        pipes.ok_or_else(|| Error::internal("a process was started without pipes"))
    }

    /// Sends a signal to all of them.
    fn signal(&self, signal: Signal) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Once it is reaped, the number may be another's.
        if child.is_some() {
            // None of them may be left.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// It was reaped by others.
    fn forget(&self) {
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Gives its number back to the system, once it has ended.
    fn reap(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
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
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            // It takes a moment to die, for which a thread of the runtime's does not wait.
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
