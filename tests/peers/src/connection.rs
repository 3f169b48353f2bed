//! Clients that may stop in the middle of what they send.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, TcpStream, UdpSocket},
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    time::Duration,
};

use rustix::net::{Shutdown, shutdown, sockopt::set_socket_linger};

/// The address of a server.
#[derive(Clone, Debug)]
pub enum Address {
    /// TCP.
    Tcp(String),
    /// A Unix socket for streams.
    Unix(PathBuf),
    /// UDP.
    Udp(String),
}

/// A connection to a server, or the socket of a client that sends datagrams.
#[derive(Debug)]
pub enum Connection {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket for streams.
    Unix(UnixStream),
    /// UDP.
    Udp(UdpSocket),
}

impl Connection {
    /// Connects to a server. A read or a write that takes longer than `limit` fails.
    ///
    /// # Errors
    /// The server does not listen.
    pub fn to(address: &Address, limit: Duration) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(address) => Self::Tcp(limited(TcpStream::connect(address)?, limit)?),
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))?;
                Self::Unix(stream)
            }
            Address::Udp(address) => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(address)?;
                Self::Udp(socket)
            }
        })
    }

    /// Sends `bytes`, over UDP as one datagram, which may be empty.
    ///
    /// # Errors
    /// The connection has ended, or the server does not read.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Udp(socket) => socket.send(bytes).map(drop),
        }
    }

    /// Resets the connection when it is dropped, unless it has no resets.
    ///
    /// # Errors
    /// The option cannot be set.
    pub fn reset(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => reset(stream),
            Self::Unix(_) | Self::Udp(_) => Ok(()),
        }
    }

    /// Ends the stream to the server. The client can still read.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => Ok(shutdown(stream.as_fd(), Shutdown::Write)?),
            Self::Unix(stream) => Ok(shutdown(stream.as_fd(), Shutdown::Write)?),
            Self::Udp(_) => Ok(()),
        }
    }
}

/// Limits the time of reads and writes.
///
/// # Errors
/// The option cannot be set.
pub fn limited(stream: TcpStream, limit: Duration) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}

/// Makes the system reset a connection when it is closed.
///
/// # Errors
/// The option cannot be set.
pub fn reset(stream: &TcpStream) -> io::Result<()> {
    Ok(set_socket_linger(stream, Some(Duration::ZERO))?)
}
