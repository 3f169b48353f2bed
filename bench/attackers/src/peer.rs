//! The sockets of an attacker.

use std::{
    fmt,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    path::PathBuf,
    thread,
    time::Duration,
};

/// Maximum time for a write, so that an attacker still checks for the end of the attack while the flow does not read.
const WRITE: Duration = Duration::from_millis(100);
/// Pause of a peer that has made all of its connections.
const PAUSE: Duration = Duration::from_millis(10);

/// The peer of an attacked flow.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    socket: PathBuf,
    /// Connections that stay open until the end.
    open: Vec<Box<dyn Connection>>,
    listener: Option<TcpListener>,
    /// Number of connections made, including closed ones.
    made: usize,
}

trait Connection: Write + Send + fmt::Debug {}
impl<C: Write + Send + fmt::Debug> Connection for C {}

impl Peer {
    pub(crate) fn new(address: SocketAddr, socket: PathBuf) -> Self {
        Self { address, socket, open: Vec::new(), listener: None, made: 0 }
    }

    fn tcp(&mut self) -> io::Result<Box<dyn Connection>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_write_timeout(Some(WRITE))?;
        self.made += 1;
        Ok(Box::new(stream))
    }

    fn unix(&mut self) -> io::Result<Box<dyn Connection>> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_write_timeout(Some(WRITE))?;
        self.made += 1;
        Ok(Box::new(stream))
    }

    fn udp(&mut self) -> io::Result<Box<dyn Connection>> {
        #[derive(Debug)]
        struct Datagrams(UdpSocket);

        impl Write for Datagrams {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.send(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(self.address)?;
        self.made += 1;
        Ok(Box::new(Datagrams(socket)))
    }

    /// Accepts a connection that the flow makes to this peer. Returns the error `NotFound` if there is none.
    fn accepted(&mut self) -> io::Result<Box<dyn Connection>> {
        if self.listener.is_none() {
            let listener = TcpListener::bind(self.address)?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let (stream, _) = listener.accept().map_err(|_| io::ErrorKind::NotFound)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE))?;
        self.made += 1;
        Ok(Box::new(stream))
    }

    /// Makes a connection with the transport `via`, sends `bytes` or as many of them as the flow
    /// reads in time, and returns the connection.
    fn sends(&mut self, via: Via, bytes: &[u8]) -> io::Result<Box<dyn Connection>> {
        let mut connection = match via {
            Via::Tcp => self.tcp(),
            Via::Unix => self.unix(),
            Via::Udp => self.udp(),
            Via::Accepted => self.accepted(),
        }?;
        write(&mut connection, bytes)?;
        Ok(connection)
    }

    /// Makes a connection that sends `bytes`, unless `count` connections are open. The connections stay
    /// open, and nothing is read from them.
    pub(crate) fn open(&mut self, via: Via, count: usize, bytes: &[u8]) -> io::Result<()> {
        if self.open.len() >= count {
            thread::sleep(PAUSE);
            return Ok(());
        }
        let connection = self.sends(via, bytes)?;
        self.open.push(connection);
        Ok(())
    }

    /// Makes a connection that closes after it has sent `bytes`, unless `count` connections have been made.
    pub(crate) fn close(&mut self, via: Via, count: usize, bytes: &[u8]) -> io::Result<()> {
        if self.made >= count {
            thread::sleep(PAUSE);
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
fn write(connection: &mut dyn Connection, bytes: &[u8]) -> io::Result<()> {
    match connection.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}
