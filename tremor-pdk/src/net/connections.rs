//! A source that serves many connections from clients that send byte streams.

mod acceptor;
mod idle;
mod peer;
#[cfg(all(test, feature = "testing-tls"))]
mod proxy_tests;
#[cfg(all(test, feature = "testing-tls"))]
mod secure_tests;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    io,
    task::Poll,
    time::Duration,
};

use rustix::io::ioctl_fionbio;

pub use self::acceptor::Listener;
use self::{
    acceptor::{Accepted, Acceptor},
    idle::Idle,
    peer::{Peer, Turn},
};
use super::{
    connection_memory::ConnectionMemory,
    poller::Poller,
    proxy_protocol::{Admission, ProxyHeaders, timed_out},
    renewal::Renewal,
    secure::{Buffers, TlsAcceptor},
};
use crate::{Counter, Gauge, Host, LimitedLog, Pull, RawBatch, Result, Source, yield_now};

/// Token of the listener in the poller. Streams are numbered from 1.
const LISTENER: u64 = 0;

/// Interval in which at most one rejected handshake is logged as a warning.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Maximum number of handshake steps before other tasks run. Each step may take a millisecond or more of processor
/// time, and a thousand clients may reconnect at the same time.
const HANDSHAKES_AT_MOST: usize = 16;

/// Estimate of the memory of a connection whose peer has sent little, in bytes: its state in this source and in
/// preprocessors.
const CONNECTION: usize = 2 << 10;

/// Estimate of the memory of a TLS connection whose peer has sent little, in bytes. An incomplete record needs up to 18
/// KiB more.
#[cfg(feature = "tls")]
const TLS_CONNECTION: usize = 24 << 10;

/// Maximum number of connections that are accepted in succession before open connections are read again.
const ACCEPTED_AT_MOST: usize = 256;

/// Limits of the connections of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections. Further connections wait in the listen backlog of the operating system.
    pub max_connections: usize,
    /// Time without received data after which a connection is closed. The connection may be closed later, by at most a
    /// sixteenth of this time. `None` disables the timeout.
    pub idle_timeout: Option<Duration>,
}

impl Default for Limits {
    /// Returns limits of 10,000 connections without an idle timeout.
    fn default() -> Self {
        Self { max_connections: 10_000, idle_timeout: None }
    }
}

/// A source that serves all connections of a server whose clients send byte streams.
///
/// Each connection is a stream of the source. The number of a stream is never reused. The origin of the stream is the
/// address of the peer, which the metadata contains as `%peer`. A pull reads from all connections that have data, one
/// after the other, directly into the batch. While the source is not pulled, nothing is read, and the peers have to
/// wait. A connection without data needs only the memory of its state.
///
/// If the peer closes the connection, the remaining bytes are the last message of the stream. If the connection fails
/// or exceeds the idle timeout, the incomplete message is rejected.
pub struct Connections {
    host: Host,
    poller: Poller,
    acceptor: Acceptor,
    renewal: Option<Renewal<Listener>>,
    idle: Idle,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    headers: Option<ProxyHeaders>,
    buffers: Buffers,
    open: HashMap<u64, Peer>,
    memory: ConnectionMemory,
    /// Streams that may have data to read.
    ready: VecDeque<u64>,
    /// Number of the newest stream.
    last: u64,
    counts: Counts,
    /// Log of rejected handshakes.
    refusals: LimitedLog,
}

struct Counts {
    open: Gauge,
    accepted: Counter,
    aborted: Counter,
    idle: Counter,
    refused: Counter,
}

impl Connections {
    /// Creates a source that accepts connections from `listener`.
    ///
    /// # Errors
    /// Returns an error if the process has no file descriptor left, or the host cannot wait for the connections.
    pub fn new(host: &Host, listener: impl Into<Listener>, limits: Limits) -> Result<Self> {
        let (listener, poller) = (listener.into(), Poller::new(host)?);
        ioctl_fionbio(listener.descriptor(), true).map_err(io::Error::from)?;
        poller.add(listener.descriptor(), LISTENER).map_err(io::Error::from)?;
        let counts = Counts {
            open: host.gauge("connections", "Connections that are open."),
            accepted: host.counter("connections_accepted", "Connections that were accepted."),
            aborted: host.counter("connections_aborted", "Connections that failed."),
            idle: host.counter(
                "connections_idle",
                "Connections that were closed because they were idle.",
            ),
            refused: host.counter("handshakes_failed", "TLS handshakes that failed."),
        };
        Ok(Self {
            poller,
            acceptor: Acceptor::new(listener, host),
            renewal: None,
            idle: Idle::new(limits.idle_timeout),
            limits,
            tls: None,
            headers: None,
            buffers: Buffers::default(),
            open: HashMap::new(),
            memory: ConnectionMemory::new(host, CONNECTION),
            ready: VecDeque::new(),
            last: LISTENER,
            counts,
            refusals: host.limited_log(1, LOGGED_EVERY),
            host: host.clone(),
        })
    }

    /// Uses TLS for all connections.
    ///
    /// A connection whose handshake fails, or takes more than ten seconds, is logged and counted, and adds no stream.
    /// If the peer closes the TLS session, its stream ends. If the peer closes the connection without closing the TLS
    /// session, the connection counts as failed.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, acceptor: TlsAcceptor) -> Self {
        self.tls = Some(acceptor);
        self.memory = ConnectionMemory::new(&self.host, TLS_CONNECTION);
        self.idle.expect_handshakes();
        self
    }

    /// Reads a header of the PROXY protocol from each connection before its data and its TLS handshake. The origin of
    /// the stream is then the address of the client in the header.
    ///
    /// A connection whose header is invalid, or does not arrive together with the TLS handshake within ten seconds, is
    /// logged and counted, and adds no stream.
    #[must_use]
    pub fn with_proxy_protocol(mut self, headers: ProxyHeaders) -> Self {
        self.headers = Some(headers);
        self.idle.expect_handshakes();
        self
    }

    /// Calls `renew` every `interval`, whether or not the source is pulled, on a thread for blocking work. If `renew`
    /// returns a listener, that listener replaces the current listener.
    ///
    /// A pull replaces a listener while no connection waits at it. Open connections stay open. Until the replacement,
    /// clients can connect to the new listener, and wait there. Use this for a listener whose address another process
    /// can take over, such as the path of a Unix domain socket.
    #[must_use]
    pub fn with_renewal(
        mut self,
        interval: Duration,
        renew: impl FnMut() -> Option<Listener> + Send + 'static,
    ) -> Self {
        self.renewal = Some(Renewal::new(&self.host, interval, renew));
        self
    }

    /// Replaces the listener if a new one is prepared. A listener with waiting connections is replaced later, because
    /// closing the listener would reset these connections.
    fn renew(&mut self) -> Result<()> {
        let is_prepared = self.renewal.as_ref().is_some_and(Renewal::is_prepared);
        if !is_prepared || self.acceptor.has_waiting() {
            return Ok(());
        }
        // A client may have connected before the new listener took over the address.
        self.check_readiness()?;
        if self.acceptor.has_waiting() {
            return Ok(());
        }
        if let Some(listener) = self.renewal.as_ref().and_then(Renewal::take) {
            ioctl_fionbio(listener.descriptor(), true).map_err(io::Error::from)?;
            self.poller.add(listener.descriptor(), LISTENER).map_err(io::Error::from)?;
            // Closing the old listener removes it from the poller.
            self.acceptor.replace(listener);
        }
        Ok(())
    }

    /// Determines which connections have data, and whether a connection waits at the listener.
    fn check_readiness(&mut self) -> Result<()> {
        let Self { poller, acceptor, open, ready, .. } = self;
        poller.check(open.len() + 1, |readable| {
            if readable.token == LISTENER {
                acceptor.set_waiting();
            } else if let Some(peer) = open.get_mut(&readable.token) {
                peer.reads_to_end |= readable.reads_to_end;
                if !std::mem::replace(&mut peer.is_queued, true) {
                    ready.push_back(readable.token);
                }
            }
        })?;
        Ok(())
    }

    /// Accepts waiting connections. Returns whether at least one connection was accepted.
    fn accept(&mut self, now_ns: u64) -> Result<bool> {
        for accepted in 0..ACCEPTED_AT_MOST {
            if self.open.len() >= self.limits.max_connections {
                return Ok(accepted > 0);
            }
            if self.acceptor.try_resume() && !self.memory.reserve() {
                self.acceptor.pause_for_memory(&self.host);
                return Ok(accepted > 0);
            }
            let Some(connection) = self.acceptor.next(&self.host)? else {
                return Ok(accepted > 0);
            };
            let Accepted { socket, origin, peer } = connection;
            let admission = self.headers.as_ref().map(|headers| headers.admit(peer));
            if let (Some(headers), Some(Admission::Rejected)) = (&self.headers, admission) {
                headers.untrusted(&origin);
                continue;
            }
            let stream = self.last + 1;
            let session = self.tls.as_ref().map(TlsAcceptor::session).transpose()?;
            let added = if session.is_some() {
                self.poller.add_both(&socket, stream)
            } else {
                self.poller.add(&socket, stream)
            };
            if let Err(error) = added {
                self.acceptor.pause_for_error(&self.host, error);
                continue;
            }
            self.last = stream;
            let mut peer = Peer::new(socket, session, origin, now_ns);
            if admission == Some(Admission::Header) {
                peer.expect_header();
            }
            peer.reads_to_end = self.acceptor.has_short_reads();
            self.open.insert(stream, peer);
            self.memory.opened();
            self.idle.begin(&self.host, now_ns);
            self.counts.accepted.add(1);
            self.count_open();
        }
        Ok(true)
    }

    /// Reads the ready connections, one after the other, until the batch is full. Returns `true` if the call stopped
    /// earlier because of [`HANDSHAKES_AT_MOST`].
    fn serve(&mut self, batch: &mut RawBatch, now_ns: u64) -> bool {
        let mut handshakes = 0;
        while !batch.is_full()
            && let Some(stream) = self.ready.pop_front()
        {
            let Some(peer) = self.open.get_mut(&stream) else { continue };
            let before = batch.len();
            let is_alone = self.ready.is_empty();
            handshakes += usize::from(peer.is_handshaking());
            let turn = peer.read(stream, batch, is_alone, &mut self.buffers);
            batch.apply_origin(before, &peer.origin);
            match turn {
                Turn::Read { has_more } => {
                    if !peer.is_handshaking() {
                        peer.active_ns = now_ns;
                    }
                    peer.is_queued = has_more;
                    if has_more {
                        self.ready.push_back(stream);
                    }
                }
                Turn::Ended => self.close(stream),
                Turn::Aborted(error) => {
                    debug!(self.host, "the connection of {} failed: {error}", peer.origin);
                    self.counts.aborted.add(1);
                    self.close(stream);
                }
                Turn::Refused(why) => self.refuse(stream, &why),
            }
            if handshakes >= HANDSHAKES_AT_MOST {
                return true;
            }
        }
        false
    }

    /// Closes connections that have exceeded the idle timeout or the time limit for handshakes.
    fn end_idle(&mut self, batch: &mut RawBatch, now_ns: u64) {
        for stream in self.idle.take_overdue(&self.host, now_ns, &mut self.open) {
            let Some(peer) = self.open.get(&stream) else { continue };
            if peer.header().is_some() {
                self.refuse(stream, &timed_out());
                continue;
            }
            if peer.is_handshaking() {
                let why = "it did not finish the TLS handshake within ten seconds";
                self.refuse(stream, &io::Error::new(io::ErrorKind::TimedOut, why));
                continue;
            }
            debug!(self.host, "closing the connection of {}, which is idle", peer.origin);
            let before = batch.len();
            if peer.has_data {
                batch.stream(stream).abort();
                batch.apply_origin(before, &peer.origin);
            }
            self.counts.idle.add(1);
            self.close(stream);
        }
    }

    /// Closes a connection whose header of the PROXY protocol or whose handshake has failed.
    fn refuse(&mut self, stream: u64, why: &io::Error) {
        let Some(peer) = self.open.get(&stream) else { return };
        if let Some((header, headers)) = peer.header().zip(self.headers.as_ref()) {
            headers.failed(&peer.origin, header.has_begun(), why);
            return self.close(stream);
        }
        // A peer that connects and closes at once probably only checks whether the port is open, so no warning is
        // logged.
        if why.kind() == io::ErrorKind::UnexpectedEof {
            debug!(self.host, "cannot establish TLS with {}: {why}", peer.origin);
        } else {
            warn!(self.refusals, "cannot establish TLS with {}: {why}", peer.origin);
        }
        self.counts.refused.add(1);
        self.close(stream);
    }

    fn close(&mut self, stream: u64) {
        if self.open.remove(&stream).is_some() {
            self.memory.closed();
        }
        self.acceptor.resume();
        self.count_open();
    }

    fn count_open(&self) {
        self.counts.open.set_integer(self.open.len());
    }

    /// Returns whether a connection may be waiting, and could be accepted now.
    fn may_accept(&self) -> bool {
        self.open.len() < self.limits.max_connections && self.acceptor.may_accept()
    }

    /// Waits until a connection may have data, a connection may be waiting, a timer has expired, or a new listener is
    /// prepared.
    async fn wait(&mut self) -> Result<()> {
        if !self.ready.is_empty() || self.may_accept() {
            return Ok(());
        }
        // While a connection waits at the listener, the listener is not replaced.
        let renewal = self.renewal.as_ref().filter(|_| !self.acceptor.has_waiting());
        poll_fn(|context| {
            if self.acceptor.poll(context).is_ready()
                || self.idle.poll(context).is_ready()
                || renewal.is_some_and(|renewal| renewal.poll(context).is_ready())
            {
                return Poll::Ready(Ok(()));
            }
            self.poller.poll_ready(context)
        })
        .await
    }
}

impl Source for Connections {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        loop {
            self.check_readiness()?;
            let now_ns = self.idle.now_ns(&self.host);
            let has_accepted = self.accept(now_ns)?;
            self.renew()?;
            self.end_idle(batch, now_ns);
            let is_busy = self.serve(batch, now_ns);
            // Events are returned at once, without waiting for a full batch.
            if !batch.is_empty() {
                return Ok(Pull::Events);
            }
            // New connections usually send data at once. Other tasks run first, so that peers that only connect and
            // close cannot keep the thread busy.
            if has_accepted || is_busy {
                yield_now().await;
            } else {
                self.wait().await?;
            }
        }
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("open", &self.open.len()).finish_non_exhaustive()
    }
}
