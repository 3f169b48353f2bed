//! Many sockets in one process, and many to one address.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::Result;

/// How many connections have one address of ours: the system has some 28,000 ports for each.
const TO_AN_ADDRESS: usize = 20_000;

/// Allows so many sockets.
///
/// # Errors
/// The system allows fewer.
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

/// Connects to a server on this machine, as the connection of this number.
pub(crate) fn connect_as(number: usize, port: u16) -> Result<TcpStream> {
    let own = u8::try_from(1 + number / TO_AN_ADDRESS)?;
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    // Without it, the system takes ports again that an earlier connection to another server had.
    if own > 1 {
        bind(&stream, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, own), 0)))?;
    }
    connect(&stream, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .map_err(|error| format!("connection {number} to port {port}: {error}"))?;
    let stream = TcpStream::from(stream);
    stream.set_nodelay(true)?;
    Ok(stream)
}
