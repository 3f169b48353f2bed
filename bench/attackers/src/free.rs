//! Addresses for servers of which the test needs to know the port before they listen.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::IntoRawFd,
    process,
    sync::atomic::{AtomicU16, Ordering},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

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
fn reserve(address: SocketAddr) -> rustix::io::Result<()> {
    // If a child inherited the socket, the port would stay reserved after this process has ended.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &address)?;
    // Set the option after `bind`, because two sockets that have it before can bind the same port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let _ = socket.into_raw_fd();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

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
