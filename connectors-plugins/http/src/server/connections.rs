//! The connections of a source, and the tasks that serve them.

use std::{
    collections::HashMap,
    future::poll_fn,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{
    Error, Host, LimitedLog, Result, Task, lock,
    net::{self, ConnectionMemory, ProxyHeaders},
    warn,
};

use super::{
    config::Settings,
    counts::Counts,
    peer::{Clock, Limits, Peer},
    queue::{Closed, RequestQueue},
};

/// Period in which at most one line of the same kind is logged.
pub(crate) const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Estimated memory of a connection whose peer has sent little, in bytes: hyper's buffers, the
/// task, and freed memory that the allocator does not reuse.
const CONNECTION: usize = 32 << 10;

/// Estimated additional memory of a connection with TLS, in bytes: half a record.
const TLS: usize = 18 << 10;

/// Maximum time to wait for the connections to end when the source ends.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// State that all connections of a source share.
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) settings: Arc<Settings>,
    pub(crate) queue: Arc<RequestQueue>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) counts: Counts,
    pub(crate) headers: Option<ProxyHeaders>,
    peers: Mutex<Peers>,
    /// Log of failed handshakes.
    refusals: LimitedLog,
}

struct Peers {
    open: HashMap<u64, Open>,
    memory: ConnectionMemory,
    /// Number of the last connection.
    last: u64,
    /// Wakers of tasks that wait for a change of `open`.
    waiting: Vec<Waker>,
    is_over: bool,
}

struct Open {
    peer: Arc<Peer>,
    /// Task that serves the connection; `None` until the task was started. Dropping the task ends
    /// the connection.
    task: Option<Task>,
}

impl Server {
    pub(crate) fn new(host: &Host, settings: Arc<Settings>) -> Result<Self> {
        let queue = RequestQueue::new(&settings, host.memory());
        let each = CONNECTION + if settings.tls.is_some() { TLS } else { 0 };
        let peers = Peers {
            open: HashMap::new(),
            memory: ConnectionMemory::new(host, each),
            last: 0,
            waiting: Vec::new(),
            is_over: false,
        };
        let proxy_protocol = settings.config.proxy_protocol.as_ref();
        let headers = proxy_protocol.map(|config| ProxyHeaders::new(host, config)).transpose()?;
        Ok(Self {
            host: host.clone(),
            queue: Arc::new(queue),
            clock: Arc::new(Clock::new(Limits::new(&settings.config))),
            counts: Counts::new(host),
            headers,
            peers: Mutex::new(peers),
            refusals: host.limited_log(1, LOGGED_EVERY),
            settings,
        })
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        lock(&self.peers)
    }

    /// Waits until the number of connections is below its limit.
    pub(crate) async fn wait_for_slot(&self) {
        let most = self.settings.config.max_connections.get();
        self.wait(|peers| peers.open.len() < most).await;
    }

    /// Reserves memory for another connection. Returns `false` if the flow has reached its memory
    /// limit.
    pub(crate) fn reserve(&self) -> bool {
        self.peers().memory.reserve()
    }

    /// Registers a connection. Returns `None` if the source has ended.
    pub(crate) fn begin(&self, address: SocketAddr) -> Option<Arc<Peer>> {
        let (peer, waiting) = {
            let peers = &mut *self.peers();
            if peers.is_over {
                return None;
            }
            peers.last += 1;
            let peer = Arc::new(Peer::new(peers.last, net::peer_origin(address), &self.clock));
            peers.open.insert(peer.stream, Open { peer: peer.clone(), task: None });
            peers.memory.opened();
            self.count_open(peers);
            (peer, std::mem::take(&mut peers.waiting))
        };
        self.counts.accepted.add(1);
        waiting.into_iter().for_each(Waker::wake);
        Some(peer)
    }

    /// Stores the task of a connection, unless the connection has ended already.
    pub(crate) fn keep(&self, number: u64, task: Task) {
        if let Some(open) = self.peers().open.get_mut(&number) {
            open.task = Some(task);
        }
    }

    /// Records a failed TLS handshake.
    pub(crate) fn refused(&self, error: &Error) {
        self.counts.handshakes_failed.add(1);
        warn!(self.refusals, "{error}");
    }

    /// Removes a connection that has ended.
    pub(crate) fn ended(&self, peer: &Peer) {
        let (ended, waiting) = {
            let peers = &mut *self.peers();
            let ended = peers.open.remove(&peer.stream);
            if ended.is_some() {
                peers.memory.closed();
            }
            self.count_open(peers);
            (ended, std::mem::take(&mut peers.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        drop(ended);
    }

    fn count_open(&self, peers: &Peers) {
        self.counts.open.set_integer(peers.open.len());
    }

    /// Waits until `condition` returns `true` for the connections.
    async fn wait(&self, condition: impl Fn(&Peers) -> bool) {
        poll_fn(|context: &mut Context<'_>| {
            let peers = &mut *self.peers();
            if condition(peers) {
                return Poll::Ready(());
            }
            peers.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Advances the clock and checks the time limits while connections are open. Runs until the
    /// task is dropped.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        let tick = self.clock.limits.tick();
        loop {
            self.wait(|peers| !peers.open.is_empty()).await;
            self.host.sleep(tick).await;
            self.clock.tick();
            self.each(|peer| peer.check_phase(&self.clock, tick));
        }
    }

    /// Calls `action` for every connection, without the lock.
    fn each(&self, action: impl Fn(&Peer)) {
        let peers: Vec<_> = self.peers().open.values().map(|open| open.peer.clone()).collect();
        peers.iter().for_each(|peer| action(peer));
    }

    /// Sets the reason why requests are rejected; `None` if the flow accepts requests. Wakes all
    /// connections if there is a reason.
    pub(crate) fn set_closed(&self, closed: Option<Closed>) {
        self.queue.set_closed(closed);
        if closed.is_some() {
            self.each(Peer::wake_task);
        }
    }

    /// Waits until the requests in flight are answered, at most [`LAST_ANSWERS`], and ends all
    /// connections. Rejects new requests.
    pub(crate) async fn drain(&self) {
        self.set_closed(Some(Closed::Draining));
        let ends = self.wait(|peers| peers.open.is_empty());
        let _ = net::within(&self.host, LAST_ANSWERS, ends).await;
        self.end();
    }

    /// Ends all connections immediately.
    pub(crate) fn end(&self) {
        let open = {
            let peers = &mut *self.peers();
            peers.is_over = true;
            std::mem::take(&mut peers.open)
        };
        self.counts.open.set(0.0);
        drop(open);
    }
}
