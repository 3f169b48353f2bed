//! Datagrams.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    net::{SocketAddr, UdpSocket as StdUdpSocket},
    os::fd::AsRawFd,
    task::{Context, Poll},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, recvfrom, sendmmsg},
};
use tremor_abi::host::Interest;

use super::drops::Drops;
use crate::{
    Counter, Delivery, Descriptors, Error, ErrorPolicy, Exceptions, Host, Pull, RawBatch,
    Registered, Result, Sink, Source, host::Watch,
};

/// More than a datagram can have.
const LARGEST: usize = 64 << 10;

/// How many datagrams the system gets at once.
const SENT_AT_ONCE: usize = 64;

/// How long to wait where the queue of the network card is full, of which the system tells no end.
const FULL: Duration = Duration::from_millis(1);

/// A socket for datagrams.
#[derive(Debug)]
pub struct UdpSocket(Registered<StdUdpSocket>);

impl UdpSocket {
    /// Makes one of a socket of the standard library, which is set not to block.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new(descriptors: &Descriptors, socket: StdUdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        descriptors.register(socket).map(Self)
    }

    /// The socket itself: for its addresses and options.
    pub fn get_ref(&self) -> &StdUdpSocket {
        self.0.get_ref()
    }

    /// The socket, registered.
    pub fn registered(&self) -> &Registered<StdUdpSocket> {
        &self.0
    }

    /// Waits for a datagram. How long it is, what fits of it, and where it came from.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|context| self.poll_receive_from(context, buffer)).await
    }

    /// Ready with a datagram.
    ///
    /// # Errors
    /// As [`UdpSocket::receive_from`].
    pub fn poll_receive_from(
        &self,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll_read_with(context, |socket| socket.recv_from(buffer))
    }

    /// Sends a datagram, once there is room for it.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn send_to(&self, datagram: &[u8], peer: SocketAddr) -> io::Result<usize> {
        poll_fn(|context| self.poll_send_to(context, datagram, peer)).await
    }

    /// Ready once a datagram is sent.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`].
    pub fn poll_send_to(
        &self,
        context: &Context<'_>,
        datagram: &[u8],
        peer: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_with(context, |socket| socket.send_to(datagram, peer))
    }
}

/// The source of a socket for datagrams: each is a message, with the address of its sender as its origin.
pub struct Datagrams {
    socket: StdUdpSocket,
    watch: Watch,
    /// Whom the last datagram came from: usually the next as well.
    sender: Option<(SocketAddrAny, Box<str>)>,
    failures: Counter,
    drops: Drops,
    host: Host,
}

impl Datagrams {
    /// The datagrams that come to a socket.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn new(host: &Host, socket: StdUdpSocket) -> Result<Self> {
        socket.set_nonblocking(true)?;
        let watch = host.watch(socket.as_raw_fd(), Interest::READABLE)?;
        let failures = host.counter("receive_errors", "Errors of the network, such as of a route.");
        let drops = Drops::new(host, &socket);
        Ok(Self { socket, watch, sender: None, failures, drops, host: host.clone() })
    }

    /// Reads datagrams until the batch is full or there is none. The last are named after it.
    fn read(&mut self, batch: &mut RawBatch) -> Result<()> {
        // Where the events of the last sender begin.
        let mut begin = 0;
        let result = loop {
            if batch.is_full() {
                break Ok(());
            }
            match receive_message(&self.socket, batch) {
                Ok(sender) if self.is_last(sender.as_ref()) => {}
                Ok(sender) => {
                    self.name(batch, begin);
                    begin = batch.len() - 1;
                    self.sender = sender.map(|sender| {
                        let name = SocketAddr::try_from(sender.clone());
                        let name = name.map_or_else(|_| "unknown".to_owned(), |it| it.to_string());
                        (sender, name.into())
                    });
                }
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::INTR) => {}
                // Of another host or of the way there: further datagrams come all the same.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {
                    self.failures.add(1);
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    break Err(Error::from(error).context("cannot receive datagrams"));
                }
            }
        };
        self.name(batch, begin);
        result
    }

    fn is_last(&self, sender: Option<&SocketAddrAny>) -> bool {
        self.sender.as_ref().map(|(last, _)| last) == sender
    }

    /// Says that the events from here on are of the last sender.
    fn name(&self, batch: &mut RawBatch, begin: usize) {
        if let Some((_, name)) = &self.sender {
            batch.set_origin_from(begin, name);
        }
    }
}

/// Receives one datagram, straight into the batch. Its sender.
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
                self.drops.count_now_and_then(&self.host);
                return Ok(Pull::Events);
            }
            poll_fn(|context| self.watch.poll_ready(context)).await?;
        }
    }

    async fn close(&mut self) -> Result<()> {
        self.drops.count();
        Ok(())
    }
}

shows! { Datagrams { socket } DatagramSink { socket } }

/// The sink of a socket for datagrams that is connected to its peer: each message is a datagram.
///
/// `Ok(())` says that the operating system has them. A message that is too long for a datagram is the fault
/// of that event alone.
pub struct DatagramSink {
    socket: UdpSocket,
    host: Host,
    /// Datagrams that the peer's host has refused: nothing listened there.
    refused: Counter,
}

impl DatagramSink {
    /// To the peer that a socket is connected to.
    pub fn new(host: &Host, socket: UdpSocket) -> Self {
        let help = "Datagrams that nothing listened for, as far as the peer's host has said so.";
        Self { socket, host: host.clone(), refused: host.counter("datagrams_refused", help) }
    }

    /// Sends as many of these as the system takes, and waits until it takes one.
    async fn send(&self, datagrams: &[&[u8]]) -> io::Result<usize> {
        let send = |socket: &StdUdpSocket| {
            let slices: [_; SENT_AT_ONCE] = std::array::from_fn(|i| {
                [IoSlice::new(datagrams.get(i).copied().unwrap_or_default())]
            });
            let mut nothing_else: [_; SENT_AT_ONCE] =
                std::array::from_fn(|_| SendAncillaryBuffer::default());
            let headers = slices.iter().zip(&mut nothing_else).take(datagrams.len());
            let mut headers: Vec<_> =
                headers.map(|(slice, nothing)| MMsgHdr::new(slice, nothing)).collect();
            Ok(sendmmsg(socket, &mut headers, SendFlags::empty())?)
        };
        self.socket.0.write_with(send).await
    }
}

impl Sink for DatagramSink {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut events: Vec<_> = batch.iter().collect();
        let datagrams: Vec<_> = events.iter().map(|event| event.raw()).collect();
        let mut exceptions = Exceptions::none();
        let (mut sent, mut doubted) = (0, None);
        while sent < datagrams.len() {
            let next = &datagrams[sent..datagrams.len().min(sent + SENT_AT_ONCE)];
            let error = match self.send(next).await {
                Ok(count) => {
                    sent += count;
                    continue;
                }
                Err(error) => error,
            };
            match Errno::from_io_error(&error) {
                // Of an earlier datagram, and told once: this one is sent again.
                Some(Errno::CONNREFUSED) => self.refused.add(1),
                Some(Errno::NOBUFS) => self.host.sleep(FULL).await,
                // As well, for all that is known: routers answer with other errors, also with this one.
                _ if doubted != Some(sent) => doubted = Some(sent),
                Some(Errno::MSGSIZE) => {
                    let length = datagrams[sent].len();
                    let message = format!("{length} bytes are too many for a datagram: {error}");
                    exceptions.reject(events[sent], Error::bad_data(message));
                    sent += 1;
                }
                _ => {
                    // It is no fault of these events.
                    let mut error = Error::from(error).context("cannot send datagrams");
                    if error.policy() != ErrorPolicy::RECONNECT {
                        error = error.with_policy(ErrorPolicy::RETRY);
                    }
                    exceptions.reject_all(events.drain(sent..), &error);
                    break;
                }
            }
        }
        exceptions.into()
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
