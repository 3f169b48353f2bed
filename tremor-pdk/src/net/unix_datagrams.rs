//! Sources and sinks for datagrams on Unix domain sockets.

use std::{
    future::poll_fn,
    io,
    os::{fd::AsRawFd, unix::net::UnixDatagram},
    path::Path,
    task::Poll,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
        socket_with,
    },
};
use tremor_abi::host::Interest;

use super::{
    origin::socket_origin,
    renewal::Renewal,
    udp::{SENT_AT_ONCE, send},
};
use crate::{
    Counter, Delivery, Descriptors, Error, Exceptions, Host, LimitedLog, Origin, Pull, RawBatch,
    Registered, Result, Sink, Source, host::Watch,
};

/// Maximum length of a received datagram in bytes. A sender needs privileges or a raised `net.core.wmem_max` to send a
/// longer one.
const LONGEST: usize = 1 << 20;

/// Interval in which at most one shortened datagram is logged.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// The source of a Unix domain socket for datagrams, such as `/dev/log`. Each datagram is a message whose origin is the
/// path of the socket.
///
/// While the source is not pulled, nothing is read. The operating system then buffers a few datagrams
/// (`net.unix.max_dgram_qlen`), and further senders wait; no datagram is dropped. Only the first MiB of a longer datagram
/// is a message, which is counted and logged.
pub struct UnixDatagrams {
    // Must be dropped before the socket.
    watch: Watch,
    socket: UnixDatagram,
    host: Host,
    origin: Origin,
    renewal: Option<Renewal<UnixDatagram>>,
    shortened: Counter,
    log: LimitedLog,
}

impl UnixDatagrams {
    /// Creates the source of a socket that is bound to `path`.
    ///
    /// # Errors
    /// Returns an error if the host cannot wait for the socket.
    pub fn new(host: &Host, socket: UnixDatagram, path: &Path) -> Result<Self> {
        Ok(Self {
            watch: watch(host, &socket)?,
            socket,
            host: host.clone(),
            origin: socket_origin(path),
            renewal: None,
            shortened: host.counter(
                "datagrams_shortened",
                "Datagrams of which only the first MiB was received.",
            ),
            log: host.limited_log(1, LOGGED_EVERY),
        })
    }

    /// Calls `renew` every `interval`, whether or not the source is pulled, on a thread for blocking work. If `renew`
    /// returns a socket, that socket replaces the current one once a pull has read all datagrams of the latter. Use this
    /// if another process may delete the file of the socket.
    #[must_use]
    pub fn with_renewal(
        mut self,
        interval: Duration,
        renew: impl FnMut() -> Option<UnixDatagram> + Send + 'static,
    ) -> Self {
        self.renewal = Some(Renewal::new(&self.host, interval, renew));
        self
    }

    /// Reads datagrams until the batch is full or none is left.
    fn read(&self, batch: &mut RawBatch) -> Result<()> {
        let begin = batch.len();
        let result = loop {
            if batch.is_full() {
                break Ok(());
            }
            match receive(&self.socket, batch) {
                Ok(length) if length > LONGEST => {
                    self.shortened.add(1);
                    warn!(
                        self.log,
                        "a datagram of {length} bytes was shortened to its first {LONGEST} bytes"
                    );
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break Ok(()),
                Err(error) => {
                    let error = io::Error::from(error);
                    break Err(Error::from(error).context("cannot receive datagrams"));
                }
            }
        };
        batch.apply_origin(begin, &self.origin);
        result
    }

    /// Replaces the socket if a new one is prepared. Returns `true` if the socket was replaced.
    fn renew(&mut self) -> Result<bool> {
        let Some(socket) = self.renewal.as_ref().and_then(Renewal::take) else { return Ok(false) };
        self.watch = watch(&self.host, &socket)?;
        self.socket = socket;
        Ok(true)
    }
}

fn watch(host: &Host, socket: &UnixDatagram) -> Result<Watch> {
    socket.set_nonblocking(true)?;
    host.watch(socket.as_raw_fd(), Interest::READABLE)
}

/// Receives one datagram directly into the batch. Returns its length, of which at most [`LONGEST`] bytes are received.
fn receive(socket: &UnixDatagram, batch: &mut RawBatch) -> Result<usize, Errno> {
    // The length is determined first, because a buffer for the longest datagram would be large.
    let (_, length) = recv(socket, &mut [0_u8; 0][..], RecvFlags::PEEK | RecvFlags::TRUNC)?;
    batch.stream(0).fill_message(length.clamp(1, LONGEST), |space| {
        recv(socket, space, RecvFlags::empty()).map(|((filled, _), _)| filled)
    })?;
    Ok(length)
}

impl Source for UnixDatagrams {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        loop {
            self.read(batch)?;
            if !batch.is_empty() {
                return Ok(Pull::Events);
            }
            if self.renew()? {
                continue;
            }
            poll_fn(|context| {
                let renewal = self.renewal.as_ref();
                if renewal.is_some_and(|renewal| renewal.poll(context).is_ready()) {
                    return Poll::Ready(Ok(()));
                }
                self.watch.poll_ready(context)
            })
            .await?;
        }
    }
}

/// The sink of a Unix domain socket for datagrams. Each message is sent as a datagram.
///
/// `Ok(())` means that the operating system has given the datagrams to the socket of the peer. While the buffer of the
/// peer is full, the delivery waits. If a message is too long for a datagram, only that event fails. If the peer has
/// closed its socket, the error is of the kind connection lost, and the whole batch is sent again later.
pub struct UnixDatagramSink {
    socket: Registered<UnixDatagram>,
    peer: Box<str>,
}

impl UnixDatagramSink {
    /// Creates the sink of the socket at `path`.
    ///
    /// # Errors
    /// Returns an error of the kind connection refused, after which the runtime retries, if no socket for datagrams is
    /// at `path`, or this process may not send to it.
    pub fn connect(host: &Host, path: &Path) -> Result<Self> {
        let descriptors = Descriptors::new(host)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let connected = || -> io::Result<UnixDatagram> {
            let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
            connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket.into())
        };
        let peer = path.display().to_string();
        let socket = connected().map_err(|error| {
            Error::connection_refused(format_args!("cannot connect to `{peer}`: {error}"))
        })?;
        Ok(Self { socket: descriptors.register(socket)?, peer: peer.into() })
    }
}

impl Sink for UnixDatagramSink {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let events: Vec<_> = batch.iter().collect();
        let datagrams: Vec<_> = events.iter().map(|event| event.raw()).collect();
        let mut exceptions = Exceptions::none();
        let mut sent = 0;
        while sent < datagrams.len() {
            let next = &datagrams[sent..datagrams.len().min(sent + SENT_AT_ONCE)];
            match send(&self.socket, next).await {
                Ok(count) => sent += count,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {
                    let length = datagrams[sent].len();
                    let message = format!("cannot send a datagram of {length} bytes: {error}");
                    exceptions.reject(events[sent], Error::bad_data(message));
                    sent += 1;
                }
                Err(error) => {
                    let message = format!("cannot send to `{}`: {error}", self.peer);
                    return Err(Error::connection_lost(message).into());
                }
            }
        }
        exceptions.into()
    }
}

shows! { UnixDatagrams { socket } UnixDatagramSink { socket } }

#[cfg(all(test, feature = "testing"))]
mod tests;
