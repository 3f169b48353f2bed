//! Opens more sockets than two default limits allow: that on the descriptors of a process, and that on the connections
//! from one local address to one server.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::Result;

/// Maximum number of connections from one local address, because the system has about 28,000 ports for an address.
const TO_AN_ADDRESS: usize = 20_000;

/// Raises the limit of descriptors for `sockets` sockets.
///
/// # Errors
/// The system does not allow that many descriptors.
pub(crate) fn allow(sockets: usize) -> Result {
    let needed = u64::try_from(sockets)? + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|error| format!("cannot have {needed} open files: {error}"))?;
    Ok(())
}

/// Connects to a server on this machine. The local address depends on `number`, the number of the connection.
pub(crate) fn connect_as(number: usize, port: u16) -> Result<TcpStream> {
    let own = u8::try_from(1 + number / TO_AN_ADDRESS)?;
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    // The socket is only bound if a further local address is needed, because a bound socket cannot use a
    // port that a recent connection to another server used.
    if own > 1 {
        bind(&stream, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, own), 0)))?;
    }
    connect(&stream, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .map_err(|error| format!("connection {number} to port {port}: {error}"))?;
    let stream = TcpStream::from(stream);
    stream.set_nodelay(true)?;
    Ok(stream)
}
