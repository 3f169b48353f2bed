//! The connections of a server whose clients send byte streams.

mod door;
mod idle;
mod peer;
mod renewal;
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

pub use self::door::Listener;
use self::{
    door::Door,
    idle::Idle,
    peer::{Peer, Turn},
    renewal::Renewal,
};
use super::{
    connection_memory::ConnectionMemory,
    poller::Poller,
    secure::{Buffers, TlsAcceptor},
};
use crate::{Counter, Gauge, Host, LimitedLog, Pull, RawBatch, Result, Source, yield_now};

/// What the listener is called in the set of descriptors. Streams are numbered from 1 on.
const LISTENER: u64 = 0;

/// Time in which at most one refused handshake is logged as a warning.
const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// How many steps of handshakes are made before others have their turn: each may take a millisecond and more of the
/// processor, and a thousand clients may connect again at the same time.
const HANDSHAKES_AT_MOST: usize = 16;

/// Memory of a connection whose peer has sent little, in bytes: its entry, and that of its stream in preprocessors.
const CONNECTION: usize = 2 << 10;

/// Memory of a connection with TLS whose peer has sent little, in bytes. Half a record adds up to 18 KiB.
#[cfg(feature = "tls")]
const TLS_CONNECTION: usize = 24 << 10;

/// How many connections are accepted before those that there are have their turn.
const ACCEPTED_AT_MOST: usize = 256;

/// How many connections there may be, and how long one may say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At this number no further connection is accepted: it waits in the backlog of the system.
    pub max_connections: usize,
    /// After this time without a byte a connection is closed, a sixteenth of it later at most. None: never.
    pub idle_timeout: Option<Duration>,
}

impl Default for Limits {
    /// 10,000 connections, for as long as they like.
    fn default() -> Self {
        Self { max_connections: 10_000, idle_timeout: None }
    }
}

/// The connections of a server whose clients send byte streams: a source that has them all.
///
/// Each connection is a stream of the source, with a number that is never used again, and the address of
/// its peer as its origin. A pull reads the connections that have something straight into the batch, in
/// turn; while the source is not pulled, nothing is read, and the peers wait. A connection that has nothing
/// costs its entry and no more. What is left of a message is a message where its peer has closed the
/// connection, and is rejected where the connection broke or said nothing for too long.
pub struct Connections {
    host: Host,
    poller: Poller,
    door: Door,
    renewal: Option<Renewal>,
    idle: Idle,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    buffers: Buffers,
    open: HashMap<u64, Peer>,
    memory: ConnectionMemory,
    /// Streams that have something, or had when they were last looked at.
    ready: VecDeque<u64>,
    /// The stream of the last connection.
    last: u64,
    counts: Counts,
    /// Log of refused handshakes.
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
    /// The connections that come to a listener.
    ///
    /// # Errors
    /// The operating system has no descriptor left, or the host cannot wait.
    pub fn new(host: &Host, listener: impl Into<Listener>, limits: Limits) -> Result<Self> {
        let (listener, poller) = (listener.into(), Poller::new(host)?);
        ioctl_fionbio(listener.descriptor(), true).map_err(io::Error::from)?;
        poller.add(listener.descriptor(), LISTENER).map_err(io::Error::from)?;
        let counts = Counts {
            open: host.gauge("connections", "Connections that are open."),
            accepted: host.counter("connections_accepted", "Connections that were accepted."),
            aborted: host.counter("connections_aborted", "Connections that broke."),
            idle: host.counter("connections_idle", "Connections closed after saying nothing."),
            refused: host.counter("handshakes_failed", "TLS handshakes that failed."),
        };
        Ok(Self {
            poller,
            door: Door::new(listener, host),
            renewal: None,
            idle: Idle::new(limits.idle_timeout),
            limits,
            tls: None,
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

    /// The same, with TLS. A peer that is refused, or does not finish its handshake within ten seconds, is
    /// logged and counted, and no stream ever begins. A stream ends where its peer says so; a connection that
    /// is closed without that has broken.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, acceptor: TlsAcceptor) -> Self {
        self.tls = Some(acceptor);
        self.memory = ConnectionMemory::new(&self.host, TLS_CONNECTION);
        self.idle.expect_handshakes();
        self
    }

    /// Calls `renew` every `interval` while the source is pulled. A listener that it returns replaces the present one,
    /// which has no connection waiting then; connections that are open stay open. For listeners whose address can be
    /// taken away while they listen, such as the path of a socket.
    #[must_use]
    pub fn with_renewal(
        mut self,
        interval: Duration,
        renew: impl FnMut() -> Option<Listener> + Send + 'static,
    ) -> Self {
        self.renewal = Some(Renewal::new(&self.host, interval, renew));
        self
    }

    /// Replaces the listener if that is due. A listener with connections that wait is replaced later, because they
    /// would be reset.
    fn renew(&mut self) -> Result<()> {
        let Some(renewal) = &mut self.renewal else { return Ok(()) };
        if !renewal.is_due(&self.host) || self.door.is_knocked() || !renewal.prepare() {
            return Ok(());
        }
        // A client may have connected before the new listener took over the address.
        self.look()?;
        if self.door.is_knocked() {
            return Ok(());
        }
        if let Some(listener) = self.renewal.as_mut().and_then(Renewal::take) {
            ioctl_fionbio(listener.descriptor(), true).map_err(io::Error::from)?;
            self.poller.add(listener.descriptor(), LISTENER).map_err(io::Error::from)?;
            // The set of descriptors forgets the old listener because this closes it.
            self.door.replace(listener);
        }
        Ok(())
    }

    /// Sees which connections have something.
    fn look(&mut self) -> Result<()> {
        let Self { poller, door, open, ready, .. } = self;
        poller.look(open.len() + 1, |readable| {
            if readable.token == LISTENER {
                door.knock();
            } else if let Some(peer) = open.get_mut(&readable.token) {
                peer.reads_to_end |= readable.reads_to_end;
                if !std::mem::replace(&mut peer.is_queued, true) {
                    ready.push_back(readable.token);
                }
            }
        })?;
        Ok(())
    }

    /// Accepts the connections that wait. Whether there was one.
    fn accept(&mut self, now_ns: u64) -> Result<bool> {
        for accepted in 0..ACCEPTED_AT_MOST {
            if self.open.len() >= self.limits.max_connections {
                return Ok(accepted > 0);
            }
            if self.door.try_open() && !self.memory.reserve() {
                self.door.shut_for_memory(&self.host);
                return Ok(accepted > 0);
            }
            let Some((socket, name)) = self.door.next(&self.host)? else { return Ok(accepted > 0) };
            let stream = self.last + 1;
            let session = self.tls.as_ref().map(TlsAcceptor::session).transpose()?;
            let added = if session.is_some() {
                self.poller.add_both(&socket, stream)
            } else {
                self.poller.add(&socket, stream)
            };
            if let Err(error) = added {
                self.door.shut_for_error(&self.host, error);
                continue;
            }
            self.last = stream;
            let mut peer = Peer::new(socket, session, name, now_ns);
            peer.reads_to_end = self.door.has_short_reads();
            self.open.insert(stream, peer);
            self.memory.opened();
            self.idle.begin(&self.host, now_ns);
            self.counts.accepted.add(1);
            self.count_open();
        }
        Ok(true)
    }

    /// Reads what is ready, in turn, until the batch is full, or until there were so many steps of handshakes
    /// that others have to have their turn. Whether the latter.
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
            batch.set_origin_from(before, &peer.name);
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
                    debug!(self.host, "the connection of {} broke: {error}", peer.name);
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

    /// Ends connections that have said nothing for too long.
    fn end_idle(&mut self, batch: &mut RawBatch, now_ns: u64) {
        for stream in self.idle.over(&self.host, now_ns, &mut self.open) {
            let Some(peer) = self.open.get(&stream) else { continue };
            if peer.is_handshaking() {
                let why = "it did not finish the TLS handshake within ten seconds";
                self.refuse(stream, &io::Error::new(io::ErrorKind::TimedOut, why));
                continue;
            }
            debug!(self.host, "{} has said nothing for too long", peer.name);
            let before = batch.len();
            if peer.has_brought {
                batch.stream(stream).abort();
                batch.set_origin_from(before, &peer.name);
            }
            self.counts.idle.add(1);
            self.close(stream);
        }
    }

    /// The handshake of a connection has failed.
    fn refuse(&mut self, stream: u64, why: &io::Error) {
        let Some(peer) = self.open.get(&stream) else { return };
        // A peer that only checks whether the port is open is not worth a warning.
        if why.kind() == io::ErrorKind::UnexpectedEof {
            debug!(self.host, "no TLS connection from {}: {why}", peer.name);
        } else {
            warn!(self.refusals, "no TLS connection from {}: {why}", peer.name);
        }
        self.counts.refused.add(1);
        self.close(stream);
    }

    fn close(&mut self, stream: u64) {
        if self.open.remove(&stream).is_some() {
            self.memory.closed();
        }
        self.door.has_room();
        self.count_open();
    }

    fn count_open(&self) {
        self.counts.open.set_integer(self.open.len());
    }

    /// Whether a connection that waits may be accepted.
    fn may_accept(&self) -> bool {
        self.open.len() < self.limits.max_connections && self.door.may_accept()
    }

    /// Waits until there may be something.
    async fn wait(&mut self) -> Result<()> {
        if !self.ready.is_empty() || self.may_accept() {
            return Ok(());
        }
        let renewal = self.renewal.as_ref().map(Renewal::alarm);
        poll_fn(|context| {
            if self.door.poll(context).is_ready()
                || self.idle.poll(context).is_ready()
                || renewal.is_some_and(|alarm| alarm.poll(context).is_ready())
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
            self.look()?;
            let now_ns = self.idle.now_ns(&self.host);
            let has_accepted = self.accept(now_ns)?;
            self.renew()?;
            self.end_idle(batch, now_ns);
            let is_busy = self.serve(batch, now_ns);
            // What is in the batch is never held up: there is no wait with it.
            if !batch.is_empty() {
                return Ok(Pull::Events);
            }
            // New connections usually have something to say at once. Others may go first: peers that connect
            // and close again must not keep the thread.
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
