//! The sockets of an attacker.

use std::{io, net::TcpListener, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    Address, Connection, Reserved, acceptor::accept_within, attack::Progress, connection::limited,
};

/// Maximum time for a write, and for a connection of the flow, so that an attacker still checks for the end of the
/// attack while the flow does not read.
const LIMIT: Duration = Duration::from_millis(100);
/// Pause of a peer that has made all of its connections.
const PAUSE: Duration = Duration::from_millis(10);

/// The peer of an attacked flow.
#[derive(Debug)]
pub struct Peer {
    /// Port of a server of the flow for streams.
    pub(crate) streams: Reserved,
    /// Port of a server of the flow for datagrams.
    pub(crate) datagrams: Reserved,
    /// Socket of a server of the flow.
    socket: PathBuf,
    /// Listener for clients of the flow.
    pub(crate) listener: TcpListener,
    pub(crate) progress: Arc<Progress>,
    /// Connections that stay open until the end.
    open: Vec<Connection>,
    /// Number of connections made, including closed ones.
    made: usize,
}

impl Peer {
    pub(crate) fn new(socket: PathBuf) -> io::Result<Self> {
        Ok(Self {
            streams: Reserved::tcp()?,
            datagrams: Reserved::udp()?,
            socket,
            listener: TcpListener::bind("127.0.0.1:0")?,
            progress: Arc::default(),
            open: Vec::new(),
            made: 0,
        })
    }

    fn connect(&self, via: Via) -> io::Result<Connection> {
        let address = match via {
            Via::Tcp => Address::Tcp(self.streams.address()),
            Via::Unix => Address::Unix(self.socket.clone()),
            Via::Udp => Address::Udp(self.datagrams.address()),
            Via::Accepted => {
                let stream = accept_within(&self.listener, LIMIT)?;
                return Ok(Connection::Tcp(limited(stream, LIMIT)?));
            }
        };
        Connection::to(&address, LIMIT)
    }

    /// Makes a connection with the transport `via`, sends `bytes` or as many of them as the flow
    /// reads in time, and returns the connection.
    fn sends(&mut self, via: Via, bytes: &[u8]) -> io::Result<Connection> {
        let mut connection = self.connect(via)?;
        self.made += 1;
        write(&mut connection, bytes)?;
        Ok(connection)
    }

    /// Makes a connection that sends `bytes`, unless `count` connections are open. The connections stay
    /// open, and nothing is read from them.
    pub(crate) fn open(&mut self, via: Via, count: usize, bytes: &[u8]) -> io::Result<()> {
        if self.open.len() >= count {
            self.progress.pause(PAUSE);
            return Ok(());
        }
        let connection = self.sends(via, bytes)?;
        self.open.push(connection);
        Ok(())
    }

    /// Makes a connection that closes after it has sent `bytes`, unless `count` connections have been made.
    pub(crate) fn close(&mut self, via: Via, count: usize, bytes: &[u8]) -> io::Result<()> {
        if self.made >= count {
            self.progress.pause(PAUSE);
            return Ok(());
        }
        self.sends(via, bytes).map(drop)
    }

    /// Opens connections until there are `count`, each of which sends `first`, and then sends `bytes` on each. Nothing
    /// is read from the connections.
    pub(crate) fn flood(
        &mut self,
        via: Via,
        count: usize,
        first: &[u8],
        bytes: &[u8],
    ) -> io::Result<()> {
        while self.open.len() < count {
            self.open(via, count, first)?;
        }
        self.open.retain_mut(|connection| write(connection, bytes).is_ok());
        Ok(())
    }
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Via {
    Tcp,
    Unix,
    Udp,
    /// TCP, with the flow as the client.
    Accepted,
}

/// Writes `bytes`, or as many of them as the flow reads in time.
fn write(connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    match connection.send(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}
