//! All connections of a server.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{
    Counter, Gauge, Task,
    net::{self, ConnectionMemory},
    prelude::*,
};
use tungstenite::protocol::frame::coding::CloseCode;

use crate::{
    config::Config,
    session::{Budget, End, Inbox, Limits, Link},
};

/// How long clients may take to answer that the server goes away.
const GOES_WITHIN: Duration = Duration::from_secs(3);

/// Memory of a connection whose client has sent little, in bytes.
const CONNECTION: usize = 10 << 10;

/// Additional memory of a connection with TLS, in bytes: half a record.
const TLS: usize = 18 << 10;

/// All connections of a server.
pub(crate) struct Hub {
    pub(crate) host: Host,
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Limits,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) counts: Counts,
    last_stream: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// After the handshake, by their streams.
    links: BTreeMap<u64, Arc<Link>>,
    /// Those before it, too.
    tasks: HashMap<u64, Task>,
    memory: ConnectionMemory,
    /// What accepts connections, and waits until there are fewer.
    acceptor: Option<Waker>,
    /// What waits until there are none.
    owner: Option<Waker>,
}

pub(crate) struct Counts {
    open: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) handshakes_failed: Counter,
    refused: Counter,
    broken: Counter,
    silent: Counter,
    pub(crate) slow: Counter,
    pub(crate) over_budget: Counter,
}

impl Counts {
    fn new(host: &Host) -> Self {
        let counter = |name, help| host.counter(name, help);
        Self {
            open: host.gauge("connections", "Connections that are open."),
            accepted: counter("connections_accepted", "Connections that were accepted."),
            accept_errors: counter("accept_errors", "Attempts to accept a connection that failed."),
            handshakes_failed: counter(
                "handshakes_failed",
                "Connections that became no WebSocket.",
            ),
            refused: counter(
                "connections_refused",
                "Connections closed for breaking the protocol.",
            ),
            broken: counter("connections_aborted", "Connections that broke."),
            silent: counter("connections_silent", "Connections whose client did not answer."),
            slow: counter("connections_slow", "Connections whose client fell too far behind."),
            over_budget: counter(
                "connections_over_budget",
                "Connections closed because all of them together buffered too much.",
            ),
        }
    }
}

impl Hub {
    pub(crate) fn new(context: &ComponentContext, config: Arc<Config>) -> Arc<Self> {
        let host: Host = context.clone().into();
        let each = CONNECTION + if config.tls.is_some() { TLS } else { 0 };
        let state = State {
            links: BTreeMap::new(),
            tasks: HashMap::new(),
            memory: ConnectionMemory::new(&host, each),
            acceptor: None,
            owner: None,
        };
        Arc::new(Self {
            limits: config.limits(),
            counts: Counts::new(&host),
            inbox: Arc::default(),
            budget: Budget::new(config.max_buffered_bytes(), Some(host.memory())),
            last_stream: AtomicU64::new(0),
            state: Mutex::new(state),
            host,
            config,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no connection has had.
    pub(crate) fn next_stream(&self) -> u64 {
        self.last_stream.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ready if there may be another connection.
    pub(crate) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.tasks.len() < self.config.max_connections.get() {
            return Poll::Ready(());
        }
        state.acceptor = Some(context.waker().clone());
        Poll::Pending
    }

    /// Reserves memory for another connection. Returns `false` if the flow does not have it.
    pub(crate) fn reserve(&self) -> bool {
        self.lock().memory.reserve()
    }

    /// Runs a connection.
    pub(crate) fn start(
        self: &Arc<Self>,
        stream: u64,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let hub = self.clone();
        // In the future below, it would take its memory twice: as a variable, and where it is polled.
        let connection = Box::pin(connection);
        let task = async move {
            connection.await;
            hub.ended(stream);
        };
        // It may have ended before it is known: then it waits for this.
        let mut state = self.lock();
        let task = self.host.spawn("serves a connection", task);
        state.tasks.insert(stream, task);
        state.memory.opened();
        self.count(&state);
    }

    fn ended(&self, stream: u64) {
        let (task, waiting) = {
            let mut state = self.lock();
            let task = state.tasks.remove(&stream);
            if task.is_some() {
                state.memory.closed();
            }
            self.count(&state);
            let owner = if state.tasks.is_empty() { state.owner.take() } else { None };
            (task, [state.acceptor.take(), owner])
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
        drop(task);
    }

    fn count(&self, state: &State) {
        self.counts.open.set_integer(state.tasks.len());
    }

    /// A connection has begun.
    pub(crate) fn open(&self, link: &Arc<Link>) {
        self.lock().links.insert(link.stream, link.clone());
    }

    /// A connection has ended.
    pub(crate) fn closed(&self, link: &Link, end: &End) {
        self.lock().links.remove(&link.stream);
        tremor_pdk::debug!(self.host, "{}: {end}", link.peer);
        match end {
            End::Closed(_) | End::Left(_) => {}
            End::Refused(_) => self.counts.refused.add(1),
            End::Crowded => self.counts.over_budget.add(1),
            End::Broken(_) => self.counts.broken.add(1),
            End::Silent => self.counts.silent.add(1),
        }
        self.inbox.end(link.stream, &link.peer, end.is_complete());
    }

    /// The connections there are.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.lock().links.values().cloned().collect()
    }

    /// Tells all clients that the server goes away, and waits for their answers for a while.
    pub(crate) async fn close_all(&self) {
        self.links().iter().for_each(|it| it.close(CloseCode::Away, "the server goes away"));
        let all_gone = poll_fn(|context| {
            let mut state = self.lock();
            // Those that have not said what they want are not waited for.
            if state.links.is_empty() {
                return Poll::Ready(());
            }
            state.owner = Some(context.waker().clone());
            Poll::Pending
        });
        let _ = net::within(&self.host, GOES_WITHIN, all_gone).await;
        self.cut_off_all();
    }

    /// Ends all connections.
    pub(crate) fn cut_off_all(&self) {
        let tasks = {
            let mut state = self.lock();
            state.links.clear();
            std::mem::take(&mut state.tasks)
        };
        drop(tasks);
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("connections", &self.lock().tasks.len()).finish_non_exhaustive()
    }
}
