//! The ports of a broker, which stay its own while its nodes are down.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// Ports of the loopback address, for as long as this is there.
///
/// Those that were free are held by sockets that never listen. While a node is down, the system gives its port to nobody: not to one
/// that asks for any port, nor to a connection, of a client that tries to reach the node again, say. A node takes the port
/// all the same: both sockets have `SO_REUSEADDR`, as those of Java and Go have that listen.
pub(super) struct Ports {
    numbers: Vec<u16>,
    _held: Vec<OwnedFd>,
}

impl Ports {
    /// So many ports, from this one on, which nobody holds; or free ones.
    ///
    /// # Errors
    /// There are not so many.
    pub(super) fn new(first: u16, count: usize) -> Result<Self> {
        if first > 0 {
            let numbers: Vec<_> = (first..=u16::MAX).take(count).collect();
            ensure!(numbers.len() == count, "there are not {count} ports from {first} on");
            return Ok(Self { numbers, _held: Vec::new() });
        }
        let held = (0..count).map(|_| hold()).collect::<Result<Vec<_>>>();
        let (numbers, held) = held.context("no port is free")?.into_iter().unzip();
        Ok(Self { numbers, _held: held })
    }
}

/// A free port, and the socket that holds it.
fn hold() -> Result<(u16, OwnedFd)> {
    // What a node inherits would hold it longer than we do.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let bound: SocketAddrV4 = getsockname(&socket)?.try_into()?;
    Ok((bound.port(), socket))
}

impl Deref for Ports {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ports_follow_the_first_or_differ() {
        assert_eq!(*Ports::new(7_000, 3).expect("there are three"), [7_000, 7_001, 7_002]);
        assert!(Ports::new(65_535, 2).is_err());
        let mut free = Ports::new(0, 9).expect("nine are free").to_vec();
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len(), 9);
    }

    #[test]
    fn a_port_stays_a_nodes_while_the_node_is_down() {
        let ports = Ports::new(0, 1).expect("one is free");
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, ports[0]);
        for _ in 0..3 {
            let other =
                socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
            let taken = bind(other.expect("a socket"), &address);
            assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE), "as for those that want any port");
            assert!(TcpStream::connect(address).is_err(), "nobody listens");
            // The library sets `SO_REUSEADDR`, as brokers do.
            let node = TcpListener::bind(address).expect("a node takes its port");
            assert!(TcpStream::connect(address).is_ok(), "it listens");
            drop(node);
        }
    }
}
