//! Ports for servers in other processes.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::{IntoRawFd, OwnedFd},
    process,
    sync::atomic::{AtomicU16, Ordering},
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, socket_with, sockopt,
};

/// A port of the loopback interface that stays reserved for a server, also while the server does not listen.
///
/// The sockets that reserve the port accept nothing. The system gives the port neither to a process that binds to any
/// free port, nor to the connection of a client.
#[derive(Debug)]
pub struct Reserved {
    port: u16,
    /// Socket that is bound to the port.
    socket: OwnedFd,
}

impl Reserved {
    /// Reserves a port for TCP. A server can bind to the port if it sets `SO_REUSEADDR` for its listener, as the
    /// standard library and most servers do.
    ///
    /// # Errors
    /// No port is free.
    pub fn tcp() -> io::Result<Self> {
        let socket = socket(SocketType::STREAM)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        Self::of(socket)
    }

    /// Reserves a port for UDP. A server can bind to the port if it sets `SO_REUSEPORT` for its socket, as
    /// `udp_server` does with `reuse_port: true`.
    ///
    /// # Errors
    /// No port is free.
    pub fn udp() -> io::Result<Self> {
        let socket = socket(SocketType::DGRAM)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        let reserved = Self::of(socket)?;
        // A connected socket receives datagrams of its peer alone, and nobody sends from this port.
        connect(&reserved.socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9))?;
        Ok(reserved)
    }

    fn of(socket: OwnedFd) -> io::Result<Self> {
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let bound: SocketAddrV4 = getsockname(&socket)?.try_into()?;
        Ok(Self { port: bound.port(), socket })
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port, and the socket that reserves it until it is dropped.
    #[must_use]
    pub fn into_parts(self) -> (u16, OwnedFd) {
        (self.port, self.socket)
    }

    /// Returns the address with the port.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// Reserves a port of the loopback interface until this process ends, and returns its address.
///
/// No other process gets the port from this function or from the system, and connections to it are refused until a
/// server listens. A server can listen there, again and again, if its socket has `SO_REUSEADDR`, which the servers of
/// Rust's library, of the kit, of Go, of OpenSSL and of syslog daemons have.
///
/// The port is below the range from which systems give ports to sockets (from 32,768 on Linux, from 49,152 on
/// macOS). It is therefore free for UDP as well, although only the TCP port is bound, and no client connects to itself
/// before a server listens.
///
/// # Errors
/// No port is free.
pub fn free_address() -> io::Result<SocketAddr> {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time try other ports first.
    let [a, b, ..] = process::id().wrapping_mul(97).to_ne_bytes();
    let start = u16::from_ne_bytes([a, b]);
    for _ in 0..COUNT {
        let port = FIRST + start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // The second check excludes ports at which other programs receive datagrams.
        if reserve(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Binds a socket that never listens to `address`, and leaves the socket open until this process ends.
fn reserve(address: SocketAddr) -> io::Result<()> {
    let socket = socket(SocketType::STREAM)?;
    bind(&socket, &address)?;
    // Set the option after `bind`, because two sockets that have it before can bind the same port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let _ = socket.into_raw_fd();
    Ok(())
}

fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    // If another process inherited the socket, the port would stay reserved after this process has ended.
    Ok(socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    use super::*;

    #[test]
    fn tcp_port_stays_reserved_while_its_server_is_down() {
        let reserved = Reserved::tcp().unwrap();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, reserved.port());
        for _ in 0..3 {
            let taken = bind(socket(SocketType::STREAM).unwrap(), &address);
            assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE), "another socket cannot bind");
            assert!(TcpStream::connect(address).is_err(), "no server listens");
            // The library sets `SO_REUSEADDR`.
            let server = TcpListener::bind(address).unwrap();
            assert!(TcpStream::connect(address).is_ok(), "the server listens");
            drop(server);
        }
    }

    #[test]
    fn server_of_a_reserved_udp_port_receives_every_datagram() {
        let reserved = Reserved::udp().unwrap();
        assert!(UdpSocket::bind(reserved.address()).is_err(), "another socket cannot bind");
        let server = socket(SocketType::DGRAM).unwrap();
        sockopt::set_socket_reuseport(&server, true).unwrap();
        bind(&server, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, reserved.port())).unwrap();
        let server = UdpSocket::from(server);
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for number in 0..50 {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(&[number], reserved.address()).unwrap();
            let mut received = [0];
            assert_eq!((server.recv(&mut received).unwrap(), received), (1, [number]));
        }
    }

    #[test]
    fn reserved_port_is_for_servers_only_and_refuses_before() {
        let address = free_address().expect("a port is free");
        for _ in 0..3 {
            assert!(reserve(address).is_err(), "a reserved port cannot be reserved again");
            let refused = TcpStream::connect(address).expect_err("nobody listens");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let server = TcpListener::bind(address).expect("a server can listen");
            assert!(TcpStream::connect(address).is_ok(), "the server listens");
            assert!(reserve(address).is_err(), "the port of a server cannot be reserved");
            drop(server);
        }
    }
}
