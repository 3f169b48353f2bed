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

/// Longest time that a write may take, so that an attacker whose flow does not read still notices the end.
const WRITE: Duration = Duration::from_millis(100);
/// Pause of a peer that has done its part.
const PAUSE: Duration = Duration::from_millis(10);

/// The peer of an attacked flow.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    socket: PathBuf,
    /// Connections that stay open until the end.
    open: Vec<Box<dyn Connection>>,
    listener: Option<TcpListener>,
    /// Connections that were made, those that are closed included.
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

    /// Returns a connection that the flow made to this peer.
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

    /// Makes a connection by `via` and returns it after it has sent `bytes`, or as much as the flow reads of them.
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

    /// Has `count` connections that each have sent `bytes`, and leaves them open without reading.
    pub(crate) fn open(&mut self, via: Via, count: usize, bytes: &[u8]) -> io::Result<()> {
        if self.open.len() >= count {
            thread::sleep(PAUSE);
            return Ok(());
        }
        let connection = self.sends(via, bytes)?;
        self.open.push(connection);
        Ok(())
    }

    /// Makes connections that close after they have sent `bytes`, `count` in all.
    pub(crate) fn close(&mut self, via: Via, count: usize, bytes: &[u8]) -> io::Result<()> {
        if self.made >= count {
            thread::sleep(PAUSE);
            return Ok(());
        }
        self.sends(via, bytes).map(drop)
    }

    /// Sends `first` on `count` connections, and then `bytes` on each of them, without end and without reading.
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
    /// TCP, but the flow connects.
    Accepted,
}

/// Writes all of `bytes`, or as many as the other side takes in time.
fn write(connection: &mut dyn Connection, bytes: &[u8]) -> io::Result<()> {
    match connection.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        written => written,
    }
}
