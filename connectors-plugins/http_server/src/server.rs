//! The connections of one source, and the tasks that serve them.

use std::{
    collections::HashMap,
    future::poll_fn,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{
    Error, Host, LimitedLog, Task,
    net::{self, ConnectionMemory},
    warn,
};

use crate::{
    config::Settings,
    counts::Counts,
    peer::{Clock, Limits, Peer},
    room::{Closed, Room},
};

/// Time in which at most one line of a kind is logged.
pub(crate) const LOGGED_EVERY: Duration = Duration::from_mins(1);

/// Memory of a connection whose peer has sent little, in bytes: hyper's buffers, their tasks, and what the allocator does
/// not reuse of earlier ones.
const CONNECTION: usize = 32 << 10;

/// Additional memory of a connection with TLS, in bytes: half a record.
const TLS: usize = 18 << 10;

/// How long answers may take that are under way when the source ends.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// What all connections of a source share.
pub(crate) struct Server {
    pub(crate) host: Host,
    pub(crate) settings: Arc<Settings>,
    pub(crate) room: Arc<Room>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) counts: Counts,
    peers: Mutex<Peers>,
    /// Log of refused handshakes.
    refusals: LimitedLog,
}

struct Peers {
    open: HashMap<u64, Open>,
    memory: ConnectionMemory,
    /// The number of the last one.
    last: u64,
    /// What waits for one to end, or to begin.
    waiting: Vec<Waker>,
    is_over: bool,
}

struct Open {
    peer: Arc<Peer>,
    /// It ends with this. None until it has begun.
    task: Option<Task>,
}

impl Server {
    pub(crate) fn new(host: &Host, settings: Arc<Settings>) -> Self {
        let room = Room::new(settings.config.respond, settings.max_waiting_bytes, host.memory());
        let each = CONNECTION + if settings.tls.is_some() { TLS } else { 0 };
        let peers = Peers {
            open: HashMap::new(),
            memory: ConnectionMemory::new(host, each),
            last: 0,
            waiting: Vec::new(),
            is_over: false,
        };
        Self {
            host: host.clone(),
            room: Arc::new(room),
            clock: Arc::new(Clock::new(Limits::new(&settings.config))),
            counts: Counts::new(host),
            peers: Mutex::new(peers),
            refusals: host.limited_log(1, LOGGED_EVERY),
            settings,
        }
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be another connection.
    pub(crate) async fn has_room(&self) {
        let most = self.settings.config.max_connections.get();
        self.wait(|peers| peers.open.len() < most).await;
    }

    /// Reserves memory for another connection. Returns `false` if the flow does not have it.
    pub(crate) fn reserve(&self) -> bool {
        self.peers().memory.reserve()
    }

    /// A connection begins; none where it is the end.
    pub(crate) fn begin(&self, address: SocketAddr) -> Option<Arc<Peer>> {
        let (peer, waiting) = {
            let peers = &mut *self.peers();
            if peers.is_over {
                return None;
            }
            peers.last += 1;
            let peer = Arc::new(Peer::new(peers.last, address.to_string().into(), &self.clock));
            peers.open.insert(peer.stream, Open { peer: peer.clone(), task: None });
            peers.memory.opened();
            self.count_open(peers);
            (peer, std::mem::take(&mut peers.waiting))
        };
        self.counts.accepted.add(1);
        waiting.into_iter().for_each(Waker::wake);
        Some(peer)
    }

    /// Keeps the task of a connection, unless that has ended meanwhile, or all of them.
    pub(crate) fn keep(&self, number: u64, task: Task) {
        if let Some(open) = self.peers().open.get_mut(&number) {
            open.task = Some(task);
        }
    }

    /// There is no TLS with a peer.
    pub(crate) fn refused(&self, error: &Error) {
        self.counts.handshakes_failed.add(1);
        warn!(self.refusals, "{error}");
    }

    /// A connection has ended.
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

    /// Waits until that is so of the connections.
    async fn wait(&self, is_so: impl Fn(&Peers) -> bool) {
        poll_fn(|context: &mut Context<'_>| {
            let peers = &mut *self.peers();
            if is_so(peers) {
                return Poll::Ready(());
            }
            peers.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Keeps the time for connections, as long as there are any.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        let tick = self.clock.limits.tick();
        loop {
            self.wait(|peers| !peers.open.is_empty()).await;
            self.host.sleep(tick).await;
            self.clock.tick();
            self.each(|peer| peer.look(&self.clock, tick));
        }
    }

    /// Looks at every connection, without the lock.
    fn each(&self, look: impl Fn(&Peer)) {
        let peers: Vec<_> = self.peers().open.values().map(|open| open.peer.clone()).collect();
        peers.iter().for_each(|peer| look(peer));
    }

    /// Says whether requests go into the flow.
    pub(crate) fn set_closed(&self, closed: Option<Closed>) {
        self.room.set_closed(closed);
        if closed.is_some() {
            self.each(Peer::wake_task);
        }
    }

    /// Answers what is under way, and ends all connections.
    pub(crate) async fn drain(&self) {
        self.set_closed(Some(Closed::Draining));
        let ends = self.wait(|peers| peers.open.is_empty());
        let _ = net::within(&self.host, LAST_ANSWERS, ends).await;
        self.end();
    }

    /// Ends all connections as they are.
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
