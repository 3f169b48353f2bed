//! Accepting connections from a listener.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixListener,
    },
    task::{Context, Poll},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{SocketFlags, acceptfrom_with},
};

use super::super::{peer_origin, reserve::Reserve, socket_origin, timer::Timer};
use crate::{Counter, Error, Host, LimitedLog, Origin, Problem, Result};

/// Delay after a failed attempt to accept. If a connection is closed before the delay ends, accepting continues at
/// once.
const RETRY: Duration = Duration::from_millis(250);

/// Interval in which at most one warning about waiting connections is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// A listener from which [`Connections`](super::Connections) accepts connections.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// A TCP listener.
    Tcp(TcpListener),
    /// A listener of a Unix domain socket.
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

impl Listener {
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }

    /// Returns the local address of the listener, for messages.
    fn address(&self) -> String {
        let address = match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.to_string()),
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                address
                    .and_then(|address| Some(address.as_pathname()?.to_string_lossy().into_owned()))
            }
        };
        address.unwrap_or_else(|| "an unknown address".to_owned())
    }

    fn accept(&self) -> Result<Accepted, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, address) = acceptfrom_with(self.descriptor(), flags)?;
        let peer = address.and_then(|address| SocketAddr::try_from(address).ok());
        let origin = match self {
            Self::Tcp(_) => peer.map(peer_origin),
            // Clients of Unix domain sockets rarely have an address, so the address of the listener is used.
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                address.and_then(|address| address.as_pathname().map(socket_origin))
            }
        };
        let origin = origin.unwrap_or_else(|| Origin::from("unknown"));
        Ok(Accepted { socket, origin, peer })
    }
}

/// A connection that was accepted.
pub(super) struct Accepted {
    pub(super) socket: OwnedFd,
    /// Origin of the data of the connection.
    pub(super) origin: Origin,
    /// Address of the peer; `None` for a Unix domain socket.
    pub(super) peer: Option<SocketAddr>,
}

/// A listener, with the state that determines whether accepting a connection may succeed.
pub(super) struct Acceptor {
    listener: Listener,
    reserve: Reserve,
    /// `true` if a connection may wait at the listener.
    has_waiting: bool,
    /// `true` after accepting failed, until a connection is closed or `retry` expires.
    is_paused: bool,
    /// Timer that ends the pause.
    retry: Timer,
    failures: Counter,
    /// The problem that connections wait and cannot be accepted.
    problem: Problem,
    log: LimitedLog,
}

impl Acceptor {
    pub(super) fn new(listener: Listener, host: &Host) -> Self {
        Self {
            listener,
            reserve: Reserve::default(),
            has_waiting: false,
            is_paused: false,
            retry: Timer::default(),
            failures: host.counter("accept_errors", "Attempts to accept a connection that failed."),
            problem: host.problem("accept"),
            log: host.limited_log(1, LOGGED_EVERY),
        }
    }

    /// Returns whether a read may return less data than is available. Reads from a Unix domain socket stop at data with
    /// which the peer has sent file descriptors; the operating system closes these descriptors.
    pub(super) fn has_short_reads(&self) -> bool {
        matches!(self.listener, Listener::Unix(_))
    }

    /// Records that a connection may wait at the listener.
    pub(super) fn set_waiting(&mut self) {
        self.has_waiting = true;
    }

    /// Returns whether a connection may wait at the listener.
    pub(super) fn has_waiting(&self) -> bool {
        self.has_waiting
    }

    /// Replaces the listener, and closes the previous listener.
    pub(super) fn replace(&mut self, listener: Listener) {
        self.listener = listener;
    }

    /// Ends the pause, because a file descriptor was closed.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Returns whether a connection may be waiting, and could be accepted now.
    pub(super) fn may_accept(&self) -> bool {
        self.has_waiting && !self.is_paused
    }

    /// Ends the pause if its timer has expired. Returns whether a connection may be waiting, and could be accepted now.
    pub(super) fn try_resume(&mut self) -> bool {
        self.is_paused &= self.retry.expired_ns().is_none();
        self.may_accept()
    }

    /// Accepts the next waiting connection, if any.
    pub(super) fn next(&mut self, host: &Host) -> Result<Option<Accepted>> {
        while self.try_resume() {
            let may_accept = self.reserve.check(self.listener.descriptor());
            match may_accept.and_then(|()| self.listener.accept()) {
                Ok(accepted) => {
                    self.reserve.took(&accepted.socket);
                    self.problem.clear();
                    return Ok(Some(accepted));
                }
                Err(Errno::AGAIN) => {
                    self.has_waiting = false;
                    self.problem.clear();
                }
                // The last two errors may concern one connection or all connections, for example if a firewall or a
                // sandbox causes them.
                Err(
                    error @ (Errno::MFILE
                    | Errno::NFILE
                    | Errno::NOBUFS
                    | Errno::NOMEM
                    | Errno::PERM
                    | Errno::OPNOTSUPP),
                ) => self.pause_for_error(host, error),
                Err(error) if is_of_one(error) => {
                    self.failures.add(1);
                    debug!(host, "a connection failed before it was accepted: {error}");
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    let address = self.listener.address();
                    let message = format!("cannot accept connections on `{address}`: {error}");
                    return Err(Error::internal(message));
                }
            }
        }
        Ok(None)
    }

    /// Pauses accepting after an error that is not specific to one connection. New connections wait meanwhile, and open
    /// connections continue.
    pub(super) fn pause_for_error(&mut self, host: &Host, error: Errno) {
        self.failures.add(1);
        let message = self.pause(
            host,
            format_args!(
                "{error}. If no descriptor is left, allow the process more open files (`ulimit -n`), or lower \
                 `max_connections`"
            ),
        );
        self.problem.set(&Error::shortage(message));
    }

    /// Pauses accepting because the flow has no memory for another connection.
    pub(super) fn pause_for_memory(&mut self, host: &Host) {
        self.pause(
            host,
            format_args!(
                "the flow has reached its memory limit. Raise `--memory-limit`, or lower `max_connections`"
            ),
        );
    }

    /// Pauses accepting, and returns the message about it.
    fn pause(&mut self, host: &Host, why: fmt::Arguments<'_>) -> String {
        self.is_paused = true;
        self.retry.set(host, RETRY);
        let address = self.listener.address();
        let message = format!("connections wait to be accepted on `{address}`: {why}");
        warn!(self.log, "{message}");
        message
    }

    /// Completes when the pause is over. Without a pause, the call stays pending, even if a timer is still set.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_paused { self.retry.poll(context) } else { Poll::Pending }
    }
}

/// Returns whether an error concerns only the connection that was being accepted: see accept(2).
fn is_of_one(error: Errno) -> bool {
    let errors_of_one = [
        Errno::INTR,
        Errno::CONNABORTED,
        Errno::NETDOWN,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
    ];
    errors_of_one.contains(&error)
}
