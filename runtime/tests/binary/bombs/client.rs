//! A hostile client, which sends bombs to a server. A bomb is a message that would take much memory to receive or
//! decode.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, TcpStream, UdpSocket},
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    time::Duration,
};

use rustix::net::{Shutdown, shutdown, sockopt::set_socket_linger};

use super::{
    row::{Peer, Then},
    tls,
};

/// Maximum time of a write, so that a server that does not read cannot block the test.
const WRITE: Duration = Duration::from_secs(5);

/// The server's address.
#[derive(Clone)]
pub(super) enum Server {
    Tcp(String),
    Unix(PathBuf),
    Udp(String),
    /// The address of a server with TLS, and the server's certificate in PEM. The client sends bombs without a TLS
    /// handshake, unless they are [half records](Client::halves).
    Tls(String, String),
}

/// A client that sends each of its bombs on a connection of its own, or over UDP as one datagram.
pub(super) struct Client {
    pub(super) server: Server,
    /// Bytes that are sent first on each connection.
    pub(super) opening: Vec<u8>,
    pub(super) bombs: Vec<Vec<u8>>,
    /// `true` if the client performs the TLS handshake, and then sends half of a TLS record that contains the bomb.
    pub(super) halves: bool,
    /// Returns the bytes of the valid event with this number.
    pub(super) good: Box<dyn Fn(usize) -> Vec<u8>>,
    /// `true` if the client has to end the stream after the valid event.
    pub(super) ends: bool,
    pub(super) open: Vec<Connection>,
}

/// A connection to the server.
pub(super) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
    Udp(UdpSocket),
    Tls(Box<tls::Client>),
}

impl Connection {
    fn to(server: &Server) -> io::Result<Self> {
        Ok(match server {
            Server::Tcp(address) | Server::Tls(address, _) => {
                let stream = TcpStream::connect(address)?;
                stream.set_write_timeout(Some(WRITE))?;
                Self::Tcp(stream)
            }
            Server::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(WRITE))?;
                Self::Unix(stream)
            }
            Server::Udp(address) => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                socket.connect(address)?;
                Self::Udp(socket)
            }
        })
    }

    /// Connects, and performs the TLS handshake if the server uses TLS.
    fn with_handshake(server: &Server) -> io::Result<Self> {
        let Server::Tls(address, certificate) = server else { return Self::to(server) };
        let stream = TcpStream::connect(address)?;
        stream.set_write_timeout(Some(WRITE))?;
        stream.set_read_timeout(Some(WRITE))?;
        Ok(Self::Tls(Box::new(tls::connect(stream, certificate)?)))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Udp(socket) => socket.send(bytes).map(drop),
            Self::Tls(client) => client.write_all(bytes).and_then(|()| client.flush()),
        }
    }

    fn reset(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => Ok(set_socket_linger(stream, Some(Duration::ZERO))?),
            Self::Tls(client) => Ok(set_socket_linger(&client.sock, Some(Duration::ZERO))?),
            Self::Unix(_) | Self::Udp(_) => Ok(()),
        }
    }

    fn end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => Ok(shutdown(stream.as_fd(), Shutdown::Write)?),
            Self::Unix(stream) => Ok(shutdown(stream.as_fd(), Shutdown::Write)?),
            Self::Udp(_) | Self::Tls(_) => Ok(()),
        }
    }
}

impl Client {
    fn try_attack(&mut self, then: Then) -> io::Result<()> {
        if let Server::Udp(_) = self.server {
            let mut socket = Connection::to(&self.server)?;
            return self.bombs.iter().try_for_each(|bomb| socket.send(bomb));
        }
        for bomb in &self.bombs {
            let mut connection = if self.halves {
                Connection::with_handshake(&self.server)?
            } else {
                Connection::to(&self.server)?
            };
            connection.send(&self.opening)?;
            let length = if then == Then::Breaks { bomb.len() / 2 } else { bomb.len() };
            // A server may reject the bomb before it has read all of it.
            let _ = match &mut connection {
                Connection::Tls(client) => tls::send_half(client, &bomb[..length]),
                connection => connection.send(&bomb[..length]),
            };
            self.open.push(connection);
        }
        if then == Then::Breaks {
            return self.open.drain(..).try_for_each(|it| it.reset());
        }
        if then == Then::Closes {
            self.open.clear();
        }
        Ok(())
    }

    fn try_send_good(&mut self, number: usize) -> io::Result<()> {
        let mut connection = Connection::with_handshake(&self.server)?;
        connection.send(&self.opening)?;
        connection.send(&(self.good)(number))?;
        if self.ends {
            connection.end()?;
        }
        self.open.push(connection);
        Ok(())
    }
}

impl Peer for Client {
    fn attack(&mut self, then: Then) {
        self.open.clear();
        // Ignore errors: the server may have closed the connection.
        let _ = self.try_attack(then);
    }

    fn send_good(&mut self, number: usize) {
        // Ignore errors: the caller repeats the call until the event arrives.
        let _ = self.try_send_good(number);
    }
}
