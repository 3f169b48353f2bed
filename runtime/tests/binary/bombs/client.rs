//! A hostile client, which sends bombs to a server. A bomb is a message that would take much memory to receive or
//! decode.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use hostile_peers::{
    Address, Connection, Reserved,
    connection::{limited, reset},
};

use super::{
    row::{Peer, Then},
    tls,
};

/// Maximum time of a write, so that a server that does not read cannot block the test.
const WRITE: Duration = Duration::from_secs(5);

/// The server's address, with the reservation of its port.
pub(super) enum Server {
    Tcp(Reserved),
    Unix(PathBuf),
    Udp(Reserved),
    /// The port of a server with TLS, and the server's certificate in PEM. The client sends bombs without a TLS
    /// handshake, unless they are [half records](Client::halves).
    Tls(Reserved, String),
}

impl Server {
    fn address(&self) -> Address {
        match self {
            Self::Tcp(port) | Self::Tls(port, _) => Address::Tcp(port.address()),
            Self::Unix(path) => Address::Unix(path.clone()),
            Self::Udp(port) => Address::Udp(port.address()),
        }
    }
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
    pub(super) open: Vec<Link>,
}

/// A connection to the server, without or with TLS.
pub(super) enum Link {
    Plain(Connection),
    Tls(Box<tls::Client>),
}

impl Link {
    fn to(server: &Server) -> io::Result<Self> {
        Connection::to(&server.address(), WRITE).map(Self::Plain)
    }

    /// Connects, and performs the TLS handshake if the server uses TLS.
    fn with_handshake(server: &Server) -> io::Result<Self> {
        let Server::Tls(port, certificate) = server else { return Self::to(server) };
        let stream = limited(std::net::TcpStream::connect(port.address())?, WRITE)?;
        Ok(Self::Tls(Box::new(tls::connect(stream, certificate)?)))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(connection) => connection.send(bytes),
            Self::Tls(client) => client.write_all(bytes).and_then(|()| client.flush()),
        }
    }

    fn reset(&self) -> io::Result<()> {
        match self {
            Self::Plain(connection) => connection.reset(),
            Self::Tls(client) => reset(&client.sock),
        }
    }

    fn end(&self) -> io::Result<()> {
        match self {
            Self::Plain(connection) => connection.end(),
            Self::Tls(_) => Ok(()),
        }
    }
}

impl Client {
    fn try_attack(&mut self, then: Then) -> io::Result<()> {
        if let Server::Udp(_) = self.server {
            let mut socket = Link::to(&self.server)?;
            return self.bombs.iter().try_for_each(|bomb| socket.send(bomb));
        }
        for bomb in &self.bombs {
            let mut connection = if self.halves {
                Link::with_handshake(&self.server)?
            } else {
                Link::to(&self.server)?
            };
            connection.send(&self.opening)?;
            let length = if then == Then::Breaks { bomb.len() / 2 } else { bomb.len() };
            // A server may reject the bomb before it has read all of it.
            let _ = match &mut connection {
                Link::Tls(client) => tls::send_half(client, &bomb[..length]),
                connection @ Link::Plain(_) => connection.send(&bomb[..length]),
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
        let mut connection = Link::with_handshake(&self.server)?;
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
