//! The ports of a broker, which stay reserved while its nodes are down.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// Returns ports of the loopback address: `count` ports from `first` on, or, if `first` is 0, free ports and the
/// sockets that reserve them.
///
/// The sockets never listen. While a node is down, the system gives its port neither to a process
/// that binds to any free port, nor to the connection of a client, for example one that reconnects
/// to the node. A node can still bind to its port, because its listening socket has `SO_REUSEADDR`,
/// as Java and Go set it, and so has the reserving socket.
///
/// # Errors
/// There are fewer ports than `count`.
pub(super) fn ports(first: u16, count: usize) -> Result<(Vec<u16>, Vec<OwnedFd>)> {
    if first > 0 {
        let numbers: Vec<_> = (first..=u16::MAX).take(count).collect();
        ensure!(numbers.len() == count, "there are fewer than {count} ports from {first} on");
        return Ok((numbers, Vec::new()));
    }
    let reserved = (0..count).map(|_| reserve()).collect::<Result<Vec<_>>>();
    Ok(reserved.context("no port is free")?.into_iter().unzip())
}

/// Returns a free port and the socket that reserves it.
fn reserve() -> Result<(u16, OwnedFd)> {
    // If a node inherited the socket, the port would stay reserved after this process has ended.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let bound: SocketAddrV4 = getsockname(&socket)?.try_into()?;
    Ok((bound.port(), socket))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ports_follow_the_first_or_differ() {
        assert_eq!(ports(7_000, 3).expect("three ports are free").0, [7_000, 7_001, 7_002]);
        assert!(ports(65_535, 2).is_err());
        let (mut free, _reserved) = ports(0, 9).expect("nine ports are free");
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len(), 9);
    }

    #[test]
    fn port_stays_reserved_while_its_node_is_down() {
        let (ports, _reserved) = ports(0, 1).expect("one port is free");
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, ports[0]);
        for _ in 0..3 {
            let other =
                socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
            let taken = bind(other.expect("a socket"), &address);
            assert_eq!(
                taken,
                Err(rustix::io::Errno::ADDRINUSE),
                "another socket cannot bind the reserved port"
            );
            assert!(TcpStream::connect(address).is_err(), "no node listens");
            // The library sets `SO_REUSEADDR`, as brokers do.
            let node = TcpListener::bind(address).expect("a node takes its port");
            assert!(TcpStream::connect(address).is_ok(), "the node listens");
            drop(node);
        }
    }
}
