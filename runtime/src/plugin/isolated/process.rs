//! The process of a plugin, from its start to its end.

use std::{
    io,
    os::unix::{net::UnixStream, process::ExitStatusExt},
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_channel::Receiver;
use rustix::{
    io::ioctl_fionbio,
    process::{PidfdFlags, pidfd_open},
};
use tremor_pdk::{Error, Result};

use super::{
    group::{command, spawn},
    link::{Call, Link, Received},
    memory::Memory,
    message::{Kind, Message},
    stderr::Stderr,
    subject::Subject,
};
use crate::{
    clock::Clock,
    dynamic::BoxFuture,
    executor::{self, Interest},
    log,
    plugin::{HostContext, log_lines},
};

/// Maximum number of turns in which messages are received that a process has sent before its end.
const MOST_TURNS: u32 = 64;

/// Longest time between two messages that ask whether the process still answers.
const PING: Duration = Duration::from_secs(1);

/// Time for a process to end after it has closed the connection.
pub(super) const LAST: Duration = Duration::from_secs(1);

/// A plugin's process. It is killed when the value is dropped.
pub(super) struct Process {
    pub(super) link: Arc<Link>,
    /// `true` once nobody needs the process any more.
    is_dropped: Arc<AtomicBool>,
    /// The receivers of acknowledgements that exist have clones.
    pub(super) acks: Arc<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.link.group.kill();
    }
}

/// Function that is called with the reason when a process ends that is still needed.
pub(super) type OnEnd = Arc<dyn Fn(Error) + Send + Sync>;

/// Completes when a process has ended and was reaped.
pub(super) type Ended = Receiver<()>;

impl Process {
    /// Returns whether a source of the process receives acknowledgements.
    pub(super) fn is_acknowledging(&self) -> bool {
        Arc::strong_count(&self.acks) > 1
    }

    /// Creates a process of a test, which answers the calls of `link` itself.
    #[cfg(test)]
    pub(super) fn of(link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { link, is_dropped: Arc::default(), acks: Arc::default() })
    }

    /// Starts a process. `hello` is the first message, whose call is returned.
    ///
    /// # Errors
    /// The system cannot start the process.
    pub(super) async fn start(
        subject: &Subject,
        hello: Message,
        host: &Arc<HostContext>,
        hang_limit: Duration,
        on_end: OnEnd,
    ) -> Result<(Self, Call, Ended)> {
        let cannot = |error: io::Error| {
            Error::from(error).context(format_args!(
                "cannot start a process for the plugin with `{}`",
                subject.command()
            ))
        };
        let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
        ours.set_nonblocking(true).map_err(cannot)?;
        let memory = Memory::new().map_err(cannot)?;
        let command = command(subject, host.component(), theirs, &memory)?;
        let group = spawn(command).await.map_err(cannot)?;
        let pid = group.pid();
        let Some(pipe) = group.stderr() else {
            return Err(Error::internal("a process was started without standard error"));
        };
        let link = Arc::new(Link::new(ours, memory, host.clone(), group));
        let is_dropped = Arc::<AtomicBool>::default();
        // From here on, dropping the process ends it.
        let process =
            Self { link: link.clone(), is_dropped: is_dropped.clone(), acks: Arc::default() };
        let clock = host.services().clock();
        let watch = |descriptor, interest| executor::watch(descriptor, interest);
        let (reads, writes, logs, exits) = (|| {
            ioctl_fionbio(&pipe, true)?;
            Ok((
                watch(link.socket()?.into(), Interest::Readable)?,
                watch(link.socket()?.into(), Interest::Writable)?,
                watch(rustix::io::fcntl_dupfd_cloexec(&pipe, 0)?, Interest::Readable)?,
                watch(pidfd_open(pid, PidfdFlags::empty())?, Interest::Readable)?,
            ))
        })()
        .map_err(cannot)?;
        // The process expects this message before all others.
        let hello = link.call(hello);
        let stderr = Arc::new(Stderr::new(pipe, clock.clone()));
        let (sender, ended) = async_channel::bounded(1);
        let (reader, writer) = (link.clone(), link.clone());
        let reading = clock.clone();
        run(host, async move {
            reader.read(reads).await;
            // A process that has closed the connection is about to end, and explains why.
            reading.sleep(LAST).await;
            reader.group.kill();
        });
        run(host, async move { writer.write(writes).await });
        let (logger, logged) = (stderr.clone(), host.clone());
        run(host, async move { logger.log(&logged, logs).await });
        run(host, async move {
            let mut exits = exits;
            let exited = async {
                // If the system cannot wait for the process, the loss of the connection has ended it.
                _ = std::future::poll_fn(|context| exits.poll_ready(context)).await;
            };
            let watched = watch_over(link.clone(), clock, hang_limit);
            executor::first(exited, watched).await;
            let status = link.group.reap();
            // Receives the messages that were sent before the end. A grandchild may have the socket, and send for ever.
            _ = (0..MOST_TURNS).find(|_| link.receive() != Received::Part);
            // An instance whose process has ended is replaced, as one that has panicked.
            let reason = link.killed().map_or_else(|| describe(status), |error| error.to_string());
            let last = stderr.last(&link.host);
            let error = if last.is_empty() {
                Error::panicked(reason)
            } else {
                Error::panicked(format_args!("{reason}; last lines of its standard error: {last}"))
            };
            link.fail(error.clone());
            if !is_dropped.load(Ordering::Relaxed) {
                on_end(error);
            }
            drop(sender);
        });
        Ok((process, hello, ended))
    }
}

/// Runs a task of the runtime. Its log lines name the flow of the component.
fn run(host: &HostContext, task: impl Future<Output = ()> + Send + 'static) {
    let flow = host.services().flow();
    let task: BoxFuture<'static, ()> = Box::pin(task);
    match flow {
        Some(flow) => log::within(&flow, || log::spawn(task)).detach(),
        None => executor::spawn(task).detach(),
    }
}

/// Asks the process regularly whether it answers, and kills it if it does not answer within `hang_limit`, or if one of
/// its calls blocks a thread for that long. Never completes.
async fn watch_over(link: Arc<Link>, clock: Clock, hang_limit: Duration) {
    let interval = (hang_limit / 4).clamp(Duration::from_millis(50), PING);
    let mut silent = Duration::ZERO;
    let (mut blocking, mut blocked) = (0, Duration::ZERO);
    let mut ping = ping(&link);
    loop {
        clock.sleep(interval).await;
        // Intervals are counted instead of time, so that time in which this process was stopped does not count.
        match ping.take() {
            None => silent += interval,
            Some(Err(_)) => std::future::pending().await,
            Some(Ok(answer)) => {
                silent = Duration::ZERO;
                let is_same = answer.a != 0 && answer.a == blocking;
                blocked = if is_same { blocked + interval } else { Duration::ZERO };
                blocking = answer.a;
                ping = self::ping(&link);
            }
        }
        let reason = if silent >= hang_limit {
            format!(
                "its process was killed: it did not answer within the `hang_limit` of {hang_limit:?}"
            )
        } else if blocked >= hang_limit {
            format!(
                "its process was killed: a call had not returned within the `hang_limit` of {hang_limit:?}"
            )
        } else {
            continue;
        };
        link.kill(Error::timeout(reason));
        std::future::pending::<()>().await;
    }
}

/// Sends PING, with the level of the log, and whether the flow drains.
fn ping(link: &Arc<Link>) -> Call {
    let is_draining = link.host.services().is_draining();
    let (a, b) = (u64::from(log_lines::max_level()), u64::from(is_draining));
    link.call(Message { a, b, ..Message::new(Kind::PING) })
}

/// Returns a description of the end of a process.
pub(super) fn describe(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return "its process ended for an unknown reason".to_owned() };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with exit status {code}"),
        (None, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("its process ended: {name}"),
            None => format!("its process ended: signal {signal}"),
        },
        (None, None) => "its process ended for an unknown reason".to_owned(),
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    let names = [
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGXCPU, "SIGXCPU"),
    ];
    names.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    use super::describe;

    #[test]
    fn end_of_a_process_is_described_by_its_status_or_signal() {
        let cases = [
            (Some(3 << 8), "its process ended with exit status 3"),
            (Some(libc::SIGSEGV), "its process ended: SIGSEGV"),
            (Some(libc::SIGABRT | 0x80), "its process ended: SIGABRT"),
            (Some(40), "its process ended: signal 40"),
            (None, "its process ended for an unknown reason"),
        ];
        for (status, expected) in cases {
            assert_eq!(describe(status.map(ExitStatus::from_raw)), expected);
        }
    }
}
