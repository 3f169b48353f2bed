//! The sink for datagrams, which follows the name of its peer.

use std::{
    future::Future,
    io::{self, IoSlice},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsFd,
    pin::Pin,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg},
};

use super::UdpSocket;
use crate::{
    Counter, Delivery, Descriptors, Error, ErrorPolicy, Exceptions, Host, LimitedLog, RawBatch,
    Registered, Result, Sink,
    net::{Address, bind_udp, within},
};

/// Maximum number of datagrams in one system call.
pub(in crate::net) const SENT_AT_ONCE: usize = 64;

/// Delay before another attempt while the queue of the network card is full. The operating system does not report when
/// the queue has space.
const QUEUE_FULL_DELAY: Duration = Duration::from_millis(1);

/// Time after which the name of the peer is looked up again, because a peer that has moved may not be reported.
const LOOKUP_INTERVAL: Duration = Duration::from_mins(1);

/// Minimum time between two lookups after the network has reported errors.
const ERROR_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that a delivery waits for a lookup. After that time, datagrams are sent to the previous address until
/// the lookup has ended, so that a name server that does not answer stops no delivery.
const LOOKUP_WAIT: Duration = Duration::from_secs(1);

/// The sink of a socket that is connected to its peer. Each message is sent as a datagram.
///
/// `Ok(())` means that the operating system has accepted the datagrams. If a message is too long for a datagram, only
/// that event fails.
pub struct DatagramSink {
    socket: UdpSocket,
    host: Host,
    /// Datagrams that the host of the peer has rejected, because no process listened.
    refused: Counter,
    /// The name of the peer; `None` if the sink was created with a socket.
    name: Option<Name>,
}

/// The name of a peer, which is looked up again, because the peer may move to another address.
struct Name {
    address: Address,
    look_up: LookUp,
    /// The lookup in progress.
    lookup: Option<Lookup>,
    /// Monotonic time at which the last lookup began, in ns.
    begun_ns: u64,
    /// Address to which datagrams are sent.
    peer: SocketAddr,
    /// `true` if the network has reported an error since the last lookup.
    is_suspect: bool,
    log: LimitedLog,
}

type Lookup = Pin<Box<dyn Future<Output = Result<Vec<SocketAddr>>> + Send>>;
type LookUp = Box<dyn Fn() -> Lookup + Send>;

impl DatagramSink {
    /// Creates the sink of a socket that is connected to its peer.
    pub fn new(host: &Host, socket: UdpSocket) -> Self {
        let help = "Datagrams that the peer's host has rejected, because no process listened.";
        let refused = host.counter("datagrams_refused", help);
        Self { socket, host: host.clone(), refused, name: None }
    }

    /// Creates a socket for the peer at `address`, and its sink.
    ///
    /// A host name is looked up again during the first delivery after a minute, and after the network has reported an
    /// error, at most once per second. If the name has other addresses then, or has several and the network has
    /// reported an error, further datagrams are sent to the next one.
    ///
    /// # Errors
    /// Returns an error of the kind connection refused if the name has no address, or the network has no route to any
    /// of its addresses.
    pub async fn connect(host: &Host, address: &Address) -> Result<Self> {
        let (resolver, name) = (host.clone(), address.clone());
        let look_up = move || -> Lookup {
            let (host, name) = (resolver.clone(), name.clone());
            Box::pin(async move { name.resolve(&host).await })
        };
        Self::connect_with(host, address, Box::new(look_up)).await
    }

    /// Creates the sink of a peer whose addresses `look_up` returns.
    async fn connect_with(host: &Host, address: &Address, look_up: LookUp) -> Result<Self> {
        let begun_ns = host.monotonic_ns();
        let peers = look_up().await?;
        let descriptors = Descriptors::new(host)?;
        let (peer, socket) = first(&descriptors, address, &peers)?;
        let name = Name {
            address: address.clone(),
            look_up,
            lookup: None,
            begun_ns,
            peer,
            is_suspect: false,
            log: host.limited_log(1, LOOKUP_INTERVAL),
        };
        Ok(Self { name: Some(name), ..Self::new(host, socket) })
    }

    /// Looks the name up if that is due, and replaces the socket if the peer has moved.
    async fn follow_name(&mut self) {
        let Some(name) = &mut self.name else { return };
        let now_ns = self.host.monotonic_ns();
        let age = Duration::from_nanos(now_ns.saturating_sub(name.begun_ns));
        let is_due = age >= LOOKUP_INTERVAL || name.is_suspect && age >= ERROR_INTERVAL;
        let wait = if name.lookup.is_none() && is_due {
            name.begun_ns = now_ns;
            LOOKUP_WAIT
        } else {
            Duration::ZERO
        };
        if name.lookup.is_none() && !is_due {
            return;
        }
        let lookup = name.lookup.get_or_insert_with(&name.look_up);
        let Some(found) = within(&self.host, wait, lookup.as_mut()).await else { return };
        name.lookup = None;
        let moved =
            found.and_then(|peers| name.next(peers, self.socket.registered().descriptors()));
        match moved {
            Ok(None) => {}
            Ok(Some((peer, socket))) => {
                let address = &name.address;
                info!(self.host, "`{address}` is now sent to {peer} instead of {}", name.peer);
                (name.peer, self.socket) = (peer, socket);
            }
            Err(error) => {
                let peer = name.peer;
                warn!(name.log, "datagrams are still sent to {peer}: {error}");
            }
        }
    }

    /// Records an error that the network has reported, and looks the name of the peer up.
    async fn suspect(&mut self) {
        if let Some(name) = &mut self.name {
            name.is_suspect = true;
            self.follow_name().await;
        }
    }
}

impl Name {
    /// Returns the address to send to from now on, and its socket, or `None` if the address stays the same.
    fn next(
        &mut self,
        mut peers: Vec<SocketAddr>,
        descriptors: &Descriptors,
    ) -> Result<Option<(SocketAddr, UdpSocket)>> {
        let is_suspect = std::mem::take(&mut self.is_suspect);
        let current = peers.iter().position(|peer| *peer == self.peer);
        if let Some(current) = current {
            if !is_suspect || peers.len() == 1 {
                return Ok(None);
            }
            // Start with the address after the current one, so that each address gets its turn.
            peers.rotate_left(current);
            peers.remove(0);
        }
        first(descriptors, &self.address, &peers).map(Some)
    }
}

/// Returns the first of `peers`, the addresses of `address`, to which the network has a route, with a socket that is
/// connected to it.
fn first(
    descriptors: &Descriptors,
    address: &Address,
    peers: &[SocketAddr],
) -> Result<(SocketAddr, UdpSocket)> {
    let mut causes = Vec::new();
    for &peer in peers {
        match connected(descriptors, peer) {
            Ok(socket) => return Ok((peer, socket)),
            Err(error) => causes.push(format!("{peer}: {error}")),
        }
    }
    let causes = causes.join("; ");
    Err(Error::connection_refused(format!("cannot send to `{address}`: {causes}")))
}

fn connected(descriptors: &Descriptors, peer: SocketAddr) -> Result<UdpSocket> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = bind_udp(&[any], false)?;
    socket.connect(peer)?;
    Ok(UdpSocket::new(descriptors, socket)?)
}

/// Waits until the operating system accepts a datagram, and sends as many of `datagrams` as it accepts, at most
/// [`SENT_AT_ONCE`]. Returns the number of datagrams that were sent.
pub(in crate::net) async fn send<S: AsFd>(
    socket: &Registered<S>,
    datagrams: &[&[u8]],
) -> io::Result<usize> {
    let send = |socket: &S| {
        let slices: [_; SENT_AT_ONCE] =
            std::array::from_fn(|i| [IoSlice::new(datagrams.get(i).copied().unwrap_or_default())]);
        let mut nothing_else: [_; SENT_AT_ONCE] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let headers = slices.iter().zip(&mut nothing_else).take(datagrams.len());
        let mut headers: Vec<_> =
            headers.map(|(slice, nothing)| MMsgHdr::new(slice, nothing)).collect();
        Ok(sendmmsg(socket, &mut headers, SendFlags::empty())?)
    };
    socket.write_with(send).await
}

impl Sink for DatagramSink {
    type Batch = RawBatch;

    async fn deliver(&mut self, batch: &RawBatch) -> Delivery {
        let mut events: Vec<_> = batch.iter().collect();
        let datagrams: Vec<_> = events.iter().map(|event| event.raw()).collect();
        let mut exceptions = Exceptions::none();
        let (mut sent, mut retried) = (0, None);
        self.follow_name().await;
        while sent < datagrams.len() {
            let next = &datagrams[sent..datagrams.len().min(sent + SENT_AT_ONCE)];
            let error = match send(self.socket.registered(), next).await {
                Ok(count) => {
                    sent += count;
                    continue;
                }
                Err(error) => error,
            };
            let errno = Errno::from_io_error(&error);
            if !matches!(errno, Some(Errno::NOBUFS | Errno::MSGSIZE)) {
                self.suspect().await;
            }
            match errno {
                // The error was caused by an earlier datagram, and the system reports it only once, so the current
                // datagram is sent again.
                Some(Errno::CONNREFUSED) => self.refused.add(1),
                Some(Errno::NOBUFS) => self.host.sleep(QUEUE_FULL_DELAY).await,
                // Other errors, including `EMSGSIZE`, may also have been caused by an earlier datagram, for example by
                // a router, so each datagram is tried twice.
                _ if retried != Some(sent) => retried = Some(sent),
                Some(Errno::MSGSIZE) => {
                    let length = datagrams[sent].len();
                    let message = format!("cannot send a datagram of {length} bytes: {error}");
                    exceptions.reject(events[sent], Error::bad_data(message));
                    sent += 1;
                }
                _ => {
                    // The error is not caused by these events, so they are retried.
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

shows! { DatagramSink { socket } }

#[cfg(all(test, feature = "testing"))]
mod tests;
