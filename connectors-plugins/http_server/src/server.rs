//! The connections of one source, and the tasks that serve them.

use std::{
    collections::HashMap,
    future::poll_fn,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use rustix::{io::Errno, net::sockopt::set_tcp_nodelay};
use tremor_pdk::{
    Host, Task, debug,
    net::{TcpListener, TcpStream},
    warn,
};

use crate::{
    config::Settings,
    connection,
    counts::Counts,
    peer::{Clock, Limits, Peer},
    room::{Closed, Room},
};

/// How many connections are accepted before others have their turn.
const ACCEPTED_AT_MOST: usize = 64;

/// How long to wait where no descriptor is left.
const RETRY: Duration = Duration::from_millis(250);

/// How often that is logged at most, in ns.
const LOGGED_EVERY_NS: u64 = 60_000_000_000;

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
}

#[derive(Default)]
struct Peers {
    open: HashMap<u64, Open>,
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
        let room = Room::new(settings.config.respond, settings.max_waiting_bytes);
        Self {
            host: host.clone(),
            room: Arc::new(room),
            clock: Arc::new(Clock::new(Limits::new(&settings.config))),
            counts: Counts::new(host),
            peers: Mutex::default(),
            settings,
        }
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections, until it is dropped.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut logged_ns = None;
        let most = self.settings.config.max_connections.get();
        loop {
            for _ in 0..ACCEPTED_AT_MOST {
                self.wait(|peers| peers.open.len() < most).await;
                match poll_fn(|context| listener.poll_accept(context)).await {
                    Ok((stream, address)) => self.serve(stream, address),
                    Err(error) => self.cannot_accept(&error, &mut logged_ns).await,
                }
            }
            yield_once().await;
        }
    }

    /// Waits after an error of all connections, and not after one of a connection that was accepted.
    async fn cannot_accept(&self, error: &io::Error, logged_ns: &mut Option<u64>) {
        self.counts.accept_errors.add(1);
        let of_all = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::PERM];
        if !Errno::from_io_error(error).is_some_and(|error| of_all.contains(&error)) {
            debug!(self.host, "a connection broke before it was accepted: {error}");
            return yield_once().await;
        }
        let now_ns = self.host.now_ns();
        if logged_ns.is_none_or(|at| now_ns.abs_diff(at) >= LOGGED_EVERY_NS) {
            *logged_ns = Some(now_ns);
            warn!(
                self.host,
                "cannot accept connections, which wait: {error}. Where no descriptor is left, allow the \
                 process more open files (`ulimit -n`), or lower `max_connections`"
            );
        }
        self.host.sleep(RETRY).await;
    }

    /// Serves a connection in a task of its own.
    fn serve(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        // An answer is written at once, and does not wait for more.
        let _ = set_tcp_nodelay(stream.get_ref(), true);
        let (peer, waiting) = {
            let peers = &mut *self.peers();
            if peers.is_over {
                return;
            }
            peers.last += 1;
            let peer = Arc::new(Peer::new(peers.last, address.to_string().into(), &self.clock));
            peers.open.insert(peer.stream, Open { peer: peer.clone(), task: None });
            self.count_open(peers);
            (peer, std::mem::take(&mut peers.waiting))
        };
        self.counts.accepted.add(1);
        waiting.into_iter().for_each(Waker::wake);
        let number = peer.stream;
        let serves = connection::serve(self.clone(), peer, stream);
        let task = self.host.spawn("serves a connection", serves);
        // It may have ended meanwhile, or all of them.
        if let Some(open) = self.peers().open.get_mut(&number) {
            open.task = Some(task);
        }
    }

    /// A connection has ended.
    pub(crate) fn ended(&self, peer: &Peer) {
        let (ended, waiting) = {
            let peers = &mut *self.peers();
            let ended = peers.open.remove(&peer.stream);
            self.count_open(peers);
            (ended, std::mem::take(&mut peers.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        drop(ended);
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 connections are many")]
    fn count_open(&self, peers: &Peers) {
        self.counts.open.set(peers.open.len() as f64);
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
            self.each(Peer::wake);
        }
    }

    /// Answers what is under way, and ends all connections.
    pub(crate) async fn drain(&self) {
        self.set_closed(Some(Closed::Draining));
        let mut ends = std::pin::pin!(self.wait(|peers| peers.open.is_empty()));
        let mut sleep = std::pin::pin!(self.host.sleep(LAST_ANSWERS));
        poll_fn(|context| match ends.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => sleep.as_mut().poll(context),
        })
        .await;
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

/// Lets others run.
pub(crate) async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
