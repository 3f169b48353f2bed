//! The connections of a server.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tremor_pdk::{
    Counter, Gauge, Task, lock,
    net::{self, ConnectionMemory, ProxyHeaders},
    prelude::*,
};
use tungstenite::protocol::frame::coding::CloseCode;

use super::config::Config;
use crate::session::{Budget, End, Inbox, Limits, Link};

/// Maximum time for clients to answer a close frame when the server stops.
const GOES_WITHIN: Duration = Duration::from_secs(3);

/// Estimated memory of a connection whose client has sent little, in bytes.
const CONNECTION: usize = 10 << 10;

/// Estimated additional memory of a connection with TLS, in bytes: half a record.
const TLS: usize = 18 << 10;

/// The connections of a server.
pub(crate) struct Connections {
    pub(crate) host: Host,
    pub(crate) config: Arc<Config>,
    pub(crate) limits: Limits,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) counts: Counts,
    pub(crate) headers: Option<ProxyHeaders>,
    last_stream: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// Connections that have completed the handshake, by stream.
    links: BTreeMap<u64, Arc<Link>>,
    /// Tasks of all connections, including those in the handshake.
    tasks: HashMap<u64, Task>,
    memory: ConnectionMemory,
    /// Waker of the task that accepts connections, which waits for their number to decrease.
    acceptor: Option<Waker>,
    /// Waker of the task that waits for all connections to end.
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
                "Connections whose WebSocket handshake failed.",
            ),
            refused: counter(
                "connections_refused",
                "Connections closed because the client violated the protocol.",
            ),
            broken: counter("connections_aborted", "Connections that broke."),
            silent: counter(
                "connections_silent",
                "Connections whose client did not answer a ping.",
            ),
            slow: counter(
                "connections_slow",
                "Connections closed because the client read too slowly.",
            ),
            over_budget: counter(
                "connections_over_budget",
                "Connections closed because all of them together buffered too much.",
            ),
        }
    }
}

impl Connections {
    pub(crate) fn new(context: &ComponentContext, config: Arc<Config>) -> Result<Arc<Self>> {
        let host: Host = context.clone().into();
        let each = CONNECTION + if config.tls.is_some() { TLS } else { 0 };
        let state = State {
            links: BTreeMap::new(),
            tasks: HashMap::new(),
            memory: ConnectionMemory::new(&host, each),
            acceptor: None,
            owner: None,
        };
        let proxy_protocol = config.proxy_protocol.as_ref();
        let headers = proxy_protocol.map(|config| ProxyHeaders::new(&host, config)).transpose()?;
        Ok(Arc::new(Self {
            headers,
            limits: config.limits(),
            counts: Counts::new(&host),
            inbox: Arc::default(),
            budget: Budget::new(config.max_buffered_bytes(), Some(host.memory())),
            last_stream: AtomicU64::new(0),
            state: Mutex::new(state),
            host,
            config,
        }))
    }

    /// Returns an unused stream number.
    pub(crate) fn next_stream(&self) -> u64 {
        self.last_stream.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Completes when the number of connections is below its limit.
    pub(crate) fn poll_capacity(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.tasks.len() < self.config.max_connections.get() {
            return Poll::Ready(());
        }
        state.acceptor = Some(context.waker().clone());
        Poll::Pending
    }

    /// Reserves memory for another connection. Returns `false` if the flow has reached its memory
    /// limit.
    pub(crate) fn reserve(&self) -> bool {
        lock(&self.state).memory.reserve()
    }

    /// Starts the task of a connection.
    pub(crate) fn start(
        self: &Arc<Self>,
        stream: u64,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let connections = self.clone();
        // Box the future, because the task's future would otherwise contain `connection` twice: as
        // a captured variable, and as the future that is polled.
        let connection = Box::pin(connection);
        let task = async move {
            connection.await;
            connections.ended(stream);
        };
        // Keep the lock until the task is registered. If the connection ends before that, `ended`
        // waits for the lock.
        let mut state = lock(&self.state);
        let task = self.host.spawn("serves a connection", task);
        state.tasks.insert(stream, task);
        state.memory.opened();
        self.count(&state);
    }

    fn ended(&self, stream: u64) {
        let (task, waiting) = {
            let mut state = lock(&self.state);
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

    /// Registers a connection that has completed the handshake.
    pub(crate) fn open(&self, link: &Arc<Link>) {
        lock(&self.state).links.insert(link.stream, link.clone());
    }

    /// Removes a connection that has ended.
    pub(crate) fn closed(&self, link: &Link, end: &End) {
        lock(&self.state).links.remove(&link.stream);
        tremor_pdk::debug!(self.host, "{}: {end}", link.peer);
        match end {
            End::ClosedByPeer(_) | End::ClosedLocally(_) => {}
            End::ProtocolViolation(_) => self.counts.refused.add(1),
            End::OverBudget => self.counts.over_budget.add(1),
            End::Broken(_) => self.counts.broken.add(1),
            End::Silent => self.counts.silent.add(1),
        }
        self.inbox.end(link.stream, &link.peer, end.is_complete());
    }

    /// Returns all connections that have completed the handshake.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        lock(&self.state).links.values().cloned().collect()
    }

    /// Closes all connections because the server stops, and waits at most [`GOES_WITHIN`] for the
    /// clients' answers.
    pub(crate) async fn close_all(&self) {
        self.links().iter().for_each(|it| it.close(CloseCode::Away, "the server is going away"));
        let all_gone = poll_fn(|context| {
            let mut state = lock(&self.state);
            // Do not wait for clients that are in the handshake.
            if state.links.is_empty() {
                return Poll::Ready(());
            }
            state.owner = Some(context.waker().clone());
            Poll::Pending
        });
        let _ = net::within(&self.host, GOES_WITHIN, all_gone).await;
        self.cut_off_all();
    }

    /// Ends all connections immediately.
    pub(crate) fn cut_off_all(&self) {
        let tasks = {
            let mut state = lock(&self.state);
            state.links.clear();
            std::mem::take(&mut state.tasks)
        };
        drop(tasks);
    }
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections")
            .field("connections", &lock(&self.state).tasks.len())
            .finish_non_exhaustive()
    }
}
