//! Options that listening and connecting sockets share.

use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt},
};

/// Keep-alive options: idle time before the first probe, number of probes, and time between them. A peer that no longer
/// responds is detected after a minute and a half.
const KEEP_ALIVE: (Duration, u32, Duration) = (Duration::from_mins(1), 3, Duration::from_secs(10));

/// Lets the system check periodically whether the peer is still reachable.
pub(super) fn keep_alive(socket: &OwnedFd) -> Result<(), Errno> {
    let (idle, count, interval) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    sockopt::set_tcp_keepintvl(socket, interval)
}

/// Opens a non-blocking socket for peers with the family of `address`.
pub(super) fn open_for(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}
