//! Sockets, sources and sinks for datagrams.

mod sink;

use std::{
    future::poll_fn,
    io,
    net::{SocketAddr, UdpSocket as StdUdpSocket},
    os::fd::AsRawFd,
    sync::Arc,
    task::{Context, Poll},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SocketAddrAny, recvfrom},
};
use tremor_abi::host::Interest;

pub use self::sink::DatagramSink;
pub(super) use self::sink::{SENT_AT_ONCE, send};
use super::{drops::Counting, peer_origin};
use crate::{
    Counter, Descriptors, Error, Host, Origin, Pull, RawBatch, Registered, Result, Source,
    host::Watch,
};

/// Size of the receive buffer in bytes: larger than any datagram.
const LARGEST: usize = 64 << 10;

/// A socket for datagrams.
#[derive(Debug)]
pub struct UdpSocket(Registered<StdUdpSocket>);

impl UdpSocket {
    /// Creates a socket from a socket of the standard library, which is set to non-blocking mode.
    ///
    /// # Errors
    /// Returns the error of the operating system if the socket cannot be registered.
    pub fn new(descriptors: &Descriptors, socket: StdUdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        descriptors.register(socket).map(Self)
    }

    /// Returns a reference to the socket, for its addresses and options.
    pub fn get_ref(&self) -> &StdUdpSocket {
        self.0.get_ref()
    }

    /// Returns the registered socket.
    pub fn registered(&self) -> &Registered<StdUdpSocket> {
        &self.0
    }

    /// Waits for a datagram. Returns the number of bytes that were stored in `buffer`, and the address of the sender.
    /// Bytes of the datagram that do not fit into `buffer` are lost.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|context| self.poll_receive_from(context, buffer)).await
    }

    /// Receives a datagram if one was received by the operating system: see [`UdpSocket::receive_from`].
    ///
    /// # Errors
    /// Returns the errors of [`UdpSocket::receive_from`].
    pub fn poll_receive_from(
        &self,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll_read_with(context, |socket| socket.recv_from(buffer))
    }

    /// Sends a datagram to `peer`, after waiting until the system accepts it. Returns the number of bytes.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub async fn send_to(&self, datagram: &[u8], peer: SocketAddr) -> io::Result<usize> {
        poll_fn(|context| self.poll_send_to(context, datagram, peer)).await
    }

    /// Sends a datagram if the system accepts it: see [`UdpSocket::send_to`].
    ///
    /// # Errors
    /// Returns the errors of [`UdpSocket::send_to`].
    pub fn poll_send_to(
        &self,
        context: &Context<'_>,
        datagram: &[u8],
        peer: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_with(context, |socket| socket.send_to(datagram, peer))
    }
}

/// A socket that receives datagrams for a source.
///
/// Datagrams that the operating system drops, because the buffer of the socket is full, are counted in the metric
/// `datagrams_dropped` and logged once a minute, as long as this value or one of its sources exists. A connector keeps
/// this value while it has no connection, so that the address stays bound and no dropped datagram is missed.
pub struct DatagramSocket {
    // Must be dropped before the socket.
    drops: Arc<Counting>,
    socket: StdUdpSocket,
    host: Host,
}

impl DatagramSocket {
    /// Creates a socket from a socket of the standard library. Call this only while the component connects, because a
    /// task is started.
    pub fn new(host: &Host, socket: StdUdpSocket) -> Self {
        let drops = Arc::new(Counting::start(host, &socket));
        Self { drops, socket, host: host.clone() }
    }

    /// Returns the source of the socket. Two sources of a socket would each get some of the datagrams.
    ///
    /// # Errors
    /// Returns an error if the process has no file descriptor left, or the host cannot wait for the socket.
    pub fn source(&self) -> Result<Datagrams> {
        let socket = self.socket.try_clone()?;
        socket.set_nonblocking(true)?;
        let watch = self.host.watch(socket.as_raw_fd(), Interest::READABLE)?;
        let failures = self
            .host
            .counter("receive_errors", "Errors of the network, such as unreachable hosts.");
        Ok(Datagrams { drops: self.drops.clone(), socket, watch, sender: None, failures })
    }
}

/// The source of a socket for datagrams. Each datagram is a message whose origin is the address of its sender.
pub struct Datagrams {
    // Must be dropped before the socket.
    drops: Arc<Counting>,
    socket: StdUdpSocket,
    watch: Watch,
    /// The sender of the last datagram, and the origin of its data. The pair is kept because the next datagram usually
    /// has the same sender.
    sender: Option<(SocketAddrAny, Origin)>,
    failures: Counter,
}

impl Datagrams {
    /// Creates the source of a socket: see [`DatagramSocket`].
    ///
    /// # Errors
    /// Returns the errors of [`DatagramSocket::source`].
    pub fn new(host: &Host, socket: StdUdpSocket) -> Result<Self> {
        DatagramSocket::new(host, socket).source()
    }

    /// Reads datagrams until the batch is full or none is left.
    fn read(&mut self, batch: &mut RawBatch) -> Result<()> {
        // Position of the first event that still needs the origin of the last sender.
        let mut begin = 0;
        let result = loop {
            if batch.is_full() {
                break Ok(());
            }
            match receive_message(&self.socket, batch) {
                Ok(sender) if self.is_last(sender.as_ref()) => {}
                Ok(sender) => {
                    self.apply_origin(batch, begin);
                    begin = batch.len() - 1;
                    self.sender = sender.map(|sender| {
                        let origin = match SocketAddr::try_from(sender.clone()) {
                            Ok(sender) => peer_origin(sender),
                            Err(_) => Origin::from("unknown"),
                        };
                        (sender, origin)
                    });
                }
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::INTR) => {}
                // These errors concern another host or the route to it. Further datagrams can still be received.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                    self.failures.add(1);
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    break Err(Error::from(error).context("cannot receive datagrams"));
                }
            }
        };
        self.apply_origin(batch, begin);
        result
    }

    fn is_last(&self, sender: Option<&SocketAddrAny>) -> bool {
        self.sender.as_ref().map(|(last, _)| last) == sender
    }

    /// Sets the origin of the events from `begin` to the end of the batch to the last sender.
    fn apply_origin(&self, batch: &mut RawBatch, begin: usize) {
        if let Some((_, origin)) = &self.sender {
            batch.apply_origin(begin, origin);
        }
    }
}

/// Receives one datagram directly into the batch. Returns the sender.
fn receive_message(
    socket: &StdUdpSocket,
    batch: &mut RawBatch,
) -> Result<Option<SocketAddrAny>, Errno> {
    let mut sender = None;
    batch.stream(0).fill_message(LARGEST, |space| {
        let ((filled, _), _, from) = recvfrom(socket, space, RecvFlags::empty())?;
        sender = from;
        Ok::<_, Errno>(filled)
    })?;
    Ok(sender)
}

impl Source for Datagrams {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        loop {
            self.read(batch)?;
            if !batch.is_empty() {
                return Ok(Pull::Events);
            }
            poll_fn(|context| self.watch.poll_ready(context)).await?;
        }
    }

    async fn close(&mut self) -> Result<()> {
        self.drops.complete().await
    }
}

shows! { Datagrams { socket } DatagramSocket { socket } }

#[cfg(all(test, feature = "testing"))]
mod tests;
