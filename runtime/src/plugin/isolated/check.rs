//! The question to a process whether a configuration is valid, which is asked before flows start.

use std::{
    fmt,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::ChildStderr,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio},
    process::{PidfdFlags, pidfd_open},
};
use serde_json::Value as Json;
use tremor_pdk::{Result, Sides};

use super::{
    group::{Group, command},
    memory::Memory,
    message::{Kind, Message, Parser, flags},
    process::{LAST, describe},
    subject::Subject,
};
use crate::{
    clock::Clock,
    plugin::{Error, ErrorKind, Library, Policy},
};

/// Name of the component in the process, because the question belongs to no flow.
const COMPONENT: &str = "check";

/// Maximum number of bytes of memory of the process. A flow may set more than its default, and the check must not fail
/// where the flow would run.
const MEMORY: u64 = 4 << 30;

/// Maximum number of bytes of standard error that are kept.
const MAX_STDERR: usize = 16 << 10;

/// Number of lines of standard error that messages show.
const LINES: usize = 3;

/// Starts a process of a connector, asks it whether a configuration is valid, and kills it. Blocks the thread.
///
/// Returns the sides of an instance with this configuration. `tremor` is the `tremor` binary. Relative paths in the
/// configuration are relative to `folder`. Each of the two answers of the process has to arrive within `limit`.
///
/// # Errors
/// Outer: errors of [`Library::check`], and kind [`Describe`](ErrorKind::Describe) if the process does not start or
/// does not answer. Inner: the error of the configuration.
pub(in crate::plugin) fn check(
    tremor: &Path,
    policy: Policy,
    library: &Library,
    connector: &str,
    config: &Json,
    folder: &Path,
    limit: Duration,
) -> std::result::Result<Result<Sides>, Error> {
    let subject = Subject::new(tremor, library, connector, policy, MEMORY)?;
    // A program that does not exist has an error with more advice than the one below.
    subject.executable()?;
    let failed = |message: fmt::Arguments<'_>| {
        let message =
            format_args!("`{}` for the connector `{connector}`: {message}", subject.command());
        Error::new(ErrorKind::Describe, library.path(), message).help(
            "`docs/isolation.md` describes how the process of a plugin has to answer; run the command by hand to see \
             whether it starts",
        )
    };
    let mut asked = Asked::start(&subject).map_err(|error| failed(format_args!("{error}")))?;
    let hello = subject.hello(COMPONENT, &folder.to_string_lossy());
    let ask = Message::new(Kind::CHECK).json(config);
    let mut call = |number, name, message| {
        asked.call(number, message, limit).map_err(|end| match end {
            End::Late => {
                let last = asked.last_lines();
                failed(format_args!("its process did not answer {name} within {limit:?}{last}"))
            }
            End::Closed => failed(format_args!("{}", asked.end())),
            End::Broken(error) => {
                let last = asked.last_lines();
                failed(format_args!("its process sent no message of the protocol: {error}{last}"))
            }
        })
    };
    let welcome = subject.check_welcome(&call(1, "HELLO", hello)?);
    welcome.map_err(|error| failed(format_args!("{error}")))?;
    Ok(subject.sides(&call(2, "CHECK", ask)?))
}

/// A process that is asked. It is killed when the value is dropped.
struct Asked {
    group: Group,
    socket: UnixStream,
    /// `None` once the process has closed it.
    stderr: Option<ChildStderr>,
    /// Descriptor that becomes readable when the process has ended.
    exit: OwnedFd,
    /// Memory that the process expects to have, although no frame is exchanged.
    _memory: Memory,
    parser: Parser,
    /// Last bytes of standard error.
    errors: Vec<u8>,
    /// `true` once the process has ended or has closed the connection.
    has_ended: bool,
}

/// Reason why an answer is missing.
enum End {
    Late,
    /// The process has ended, or has closed the connection.
    Closed,
    Broken(io::Error),
}

impl Asked {
    /// Starts the process.
    fn start(subject: &Subject) -> Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let memory = Memory::new()?;
        let mut child = command(subject, COMPONENT, theirs, &memory)?.spawn()?;
        let stderr = child.stderr.take();
        // From here on, dropping the group ends the process.
        let group = Group::new(child);
        stderr
            .as_ref()
            .map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true).map_err(io::Error::from))?;
        let exit = pidfd_open(group.pid(), PidfdFlags::empty()).map_err(io::Error::from)?;
        Ok(Self {
            group,
            socket,
            stderr,
            exit,
            _memory: memory,
            parser: Parser::default(),
            errors: Vec::new(),
            has_ended: false,
        })
    }

    /// Sends a message, and waits for its answer. All other messages are ignored.
    fn call(
        &mut self,
        call: u32,
        message: Message,
        limit: Duration,
    ) -> std::result::Result<Message, End> {
        let clock = Clock::default();
        let begun = clock.now();
        let mut unsent = Vec::new();
        Message { call, ..message }.write(&mut unsent);
        loop {
            while let Some(message) =
                self.parser.next().map_err(|it| broken(io::Error::other(it)))?
            {
                if message.has(flags::ANSWER) && message.call == call {
                    return Ok(message);
                }
            }
            if self.has_ended {
                return Err(End::Closed);
            }
            let left = limit.saturating_sub(clock.elapsed(begun));
            if left.is_zero() {
                return Err(End::Late);
            }
            self.send(&mut unsent);
            self.wait(!unsent.is_empty(), left).map_err(broken)?;
            self.receive();
        }
    }

    /// Sends as much as the socket accepts. If it is broken, reading from it finds the end as well.
    fn send(&self, unsent: &mut Vec<u8>) {
        while !unsent.is_empty() {
            match (&self.socket).write(unsent) {
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Waits until something can be read, or written if `writes` is `true`, or the process has ended.
    fn wait(&mut self, writes: bool, left: Duration) -> io::Result<()> {
        let writes = if writes { PollFlags::OUT } else { PollFlags::empty() };
        let mut polled = vec![
            PollFd::new(&self.exit, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN | writes),
        ];
        polled.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.has_ended = !polled[0].revents().is_empty();
        Ok(())
    }

    /// Reads what has arrived on both channels, without waiting.
    fn receive(&mut self) {
        let mut buffer = [0; 4_096];
        loop {
            match (&self.socket).read(&mut buffer) {
                Ok(len @ 1..) => self.parser.push(&buffer[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.has_ended = true;
                    break;
                }
            }
        }
        while let Some(pipe) = &mut self.stderr {
            match pipe.read(&mut buffer) {
                Ok(len @ 1..) => {
                    self.errors.extend_from_slice(&buffer[..len]);
                    let excess = self.errors.len().saturating_sub(MAX_STDERR);
                    self.errors.drain(..excess);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => self.stderr = None,
            }
        }
    }

    /// Returns a description of the end of the process. A process that has closed the connection has time to end, so
    /// that its status and its last lines are known.
    fn end(&mut self) -> String {
        let time = Timespec::try_from(LAST).ok();
        _ = poll(&mut [PollFd::new(&self.exit, PollFlags::IN)], time.as_ref());
        let status = self.group.reap();
        format!("{}{}", describe(status), self.last_lines())
    }

    /// Returns the last lines of standard error, formatted to be appended to a message.
    fn last_lines(&mut self) -> String {
        self.receive();
        let text = String::from_utf8_lossy(&self.errors);
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        if last.is_empty() {
            return String::new();
        }
        format!("; last lines of its standard error: {}", last.join(" / "))
    }
}

fn broken(error: io::Error) -> End {
    End::Broken(error)
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.group.reap();
    }
}
