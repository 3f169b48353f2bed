//! Where connections come in.

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

use super::super::{alarm::Alarm, reserve::Reserve};
use crate::{Counter, Error, Host, LimitedLog, Result};

/// How long to wait where no descriptor is left, unless a connection of ours is closed before.
const RETRY: Duration = Duration::from_millis(250);

/// Time in which at most one line says that connections wait.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// What connections come to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// Of TCP.
    Tcp(TcpListener),
    /// A socket in the file system.
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

    /// What it listens on.
    fn address(&self) -> String {
        let address = match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|it| it.to_string()),
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                address.and_then(|it| Some(it.as_pathname()?.to_string_lossy().into_owned()))
            }
        };
        address.unwrap_or_else(|| "an address that the system does not tell".to_owned())
    }

    /// A connection, and what its peer is called.
    fn accept(&self) -> Result<(OwnedFd, Box<str>), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, address) = acceptfrom_with(self.descriptor(), flags)?;
        let name = match self {
            Self::Tcp(_) => {
                let address = address.and_then(|address| SocketAddr::try_from(address).ok());
                address.map(|address| address.to_string())
            }
            // Clients seldom have an address of their own here.
            Self::Unix(_) => Some(self.address()),
        };
        Ok((socket, name.unwrap_or_else(|| "unknown".to_owned()).into()))
    }
}

/// A listener, and whether it is of use to ask it.
pub(super) struct Door {
    listener: Listener,
    reserve: Reserve,
    /// Whether a connection may wait.
    is_knocked: bool,
    /// Whether no descriptor was left when it was last asked.
    is_shut: bool,
    /// When it is opened again.
    retry: Alarm,
    failures: Counter,
    log: LimitedLog,
}

impl Door {
    pub(super) fn new(listener: Listener, host: &Host) -> Self {
        Self {
            listener,
            reserve: Reserve::default(),
            is_knocked: false,
            is_shut: false,
            retry: Alarm::default(),
            failures: host.counter("accept_errors", "Attempts to accept a connection that failed."),
            log: host.limited_log(1, LOGGED_EVERY),
        }
    }

    /// Whether a read may end before what there is does: at descriptors that a peer has sent along, which the
    /// system closes.
    pub(super) fn has_short_reads(&self) -> bool {
        matches!(self.listener, Listener::Unix(_))
    }

    /// A connection waits.
    pub(super) fn knock(&mut self) {
        self.is_knocked = true;
    }

    /// Returns whether a connection may wait at the listener.
    pub(super) fn is_knocked(&self) -> bool {
        self.is_knocked
    }

    /// Accepts connections from another listener, and closes the present one.
    pub(super) fn replace(&mut self, listener: Listener) {
        self.listener = listener;
    }

    /// There is a descriptor again, for all that is known.
    pub(super) fn has_room(&mut self) {
        self.is_shut = false;
    }

    /// Whether a connection may wait that can be accepted.
    pub(super) fn may_accept(&self) -> bool {
        self.is_knocked && !self.is_shut
    }

    /// Opens the door again if the time for that has come. Returns whether a connection may wait that can be accepted.
    pub(super) fn try_open(&mut self) -> bool {
        self.is_shut &= self.retry.rang_ns().is_none();
        self.may_accept()
    }

    /// The next connection that waits.
    pub(super) fn next(&mut self, host: &Host) -> Result<Option<(OwnedFd, Box<str>)>> {
        while self.try_open() {
            let may_accept = self.reserve.check(self.listener.descriptor());
            match may_accept.and_then(|()| self.listener.accept()) {
                Ok(accepted) => {
                    self.reserve.took(&accepted.0);
                    return Ok(Some(accepted));
                }
                Err(Errno::AGAIN) => self.is_knocked = false,
                // The last two may be of one connection, and of all: a firewall's, a sandbox's.
                Err(
                    error @ (Errno::MFILE
                    | Errno::NFILE
                    | Errno::NOBUFS
                    | Errno::NOMEM
                    | Errno::PERM
                    | Errno::OPNOTSUPP),
                ) => self.shut_for_error(host, error),
                Err(error) if is_of_one(error) => {
                    self.failures.add(1);
                    debug!(host, "a connection broke before it was accepted: {error}");
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

    /// Accepts nothing for a while, after an error that other connections would have as well. Connections wait meanwhile,
    /// and established ones continue.
    pub(super) fn shut_for_error(&mut self, host: &Host, error: Errno) {
        self.failures.add(1);
        self.shut(
            host,
            format_args!(
                "{error}. If no descriptor is left, allow the process more open files (`ulimit -n`), or lower \
                 `max_connections`"
            ),
        );
    }

    /// Accepts nothing for a while, because the flow has no memory for another connection.
    pub(super) fn shut_for_memory(&mut self, host: &Host) {
        self.shut(
            host,
            format_args!(
                "the flow has reached its memory limit. Raise `--memory-limit`, or lower `max_connections`"
            ),
        );
    }

    fn shut(&mut self, host: &Host, why: fmt::Arguments<'_>) {
        self.is_shut = true;
        self.retry.set(host, RETRY);
        let address = self.listener.address();
        warn!(self.log, "cannot accept connections on `{address}`, which wait: {why}");
    }

    /// Ready once it may be asked again. Where it is open, there is nothing to wait for: an alarm that is
    /// still set is of no more use.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_shut { self.retry.poll(context) } else { Poll::Pending }
    }
}

/// Errors of one connection, which the system hands on with it: see accept(2).
fn is_of_one(error: Errno) -> bool {
    let those = [
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
    those.contains(&error)
}
