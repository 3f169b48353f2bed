//! What sockets that listen and sockets that connect have in common.

use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt},
};

/// When the system asks a peer that says nothing whether it is still there, how often, and in what
/// distance: a peer that is gone without a word is noticed after a minute and a half.
const KEEP_ALIVE: (Duration, u32, Duration) = (Duration::from_mins(1), 3, Duration::from_secs(10));

/// Has the system ask whether the peer is still there.
pub(super) fn keep_alive(socket: &OwnedFd) -> Result<(), Errno> {
    let (idle, count, interval) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    sockopt::set_tcp_keepintvl(socket, interval)
}

/// A socket for peers of this address, which does not block.
pub(super) fn open_for(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}
