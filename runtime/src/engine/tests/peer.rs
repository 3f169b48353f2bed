//! A connector whose connections succeed and fail as a test requires.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tremor_abi::connector::Hook;
use tremor_pdk::{Batch, Error, Pull, Result, Sides, lock};

use super::{
    Setup, control,
    doubles::{ScriptedSink, Shared, SinkScript},
};
use crate::{
    clock::Clock,
    dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource},
    engine::{Connection, Control, parts::MakeConnector},
    flow,
};

/// Creates one half of a connection.
type Make<T> = Box<dyn Fn(&Arc<Connection>) -> Result<Box<T>> + Send + Sync>;

/// The peer of a connector. It determines the results of the connector's calls, and records the calls.
pub(super) struct Peer {
    /// Results of the first attempts to connect. Later attempts succeed.
    pub(super) connects: Mutex<VecDeque<Result<()>>>,
    /// Results of the first calls of the constructor. Later calls succeed.
    pub(super) news: Mutex<VecDeque<Result<()>>>,
    pub(super) source: Make<dyn DynSource>,
    pub(super) sink: Make<dyn DynSink>,
    /// Halves of each connection.
    pub(super) sides: Sides,
    /// Calls of the connector in order.
    pub(super) calls: Mutex<Vec<&'static str>>,
    /// The connection of the last instance.
    last: Mutex<Arc<Connection>>,
    /// Maximum number of tasks that waited for a change of the flow's control. It is sampled at each call.
    pub(super) most_waiting: AtomicUsize,
    /// Clock and duration of `close` of the connector. Unless set, `close` returns at once.
    pub(super) close_takes: Mutex<Option<(Clock, Duration)>>,
    pub(super) control: Arc<Control>,
}

impl Peer {
    pub(super) fn new(source: Make<dyn DynSource>, sink: Make<dyn DynSink>) -> Self {
        Self {
            connects: Mutex::default(),
            news: Mutex::default(),
            source,
            sink,
            sides: Sides::BOTH,
            calls: Mutex::default(),
            last: Mutex::default(),
            most_waiting: AtomicUsize::default(),
            close_takes: Mutex::default(),
            control: control(0),
        }
    }

    /// Creates a peer for a connector that is only a source.
    pub(super) fn of_source(source: Make<dyn DynSource>) -> Self {
        let none = Box::new(|_: &_| Err(Error::internal("no sink")));
        Self { sides: Sides::SOURCE, ..Self::new(source, none) }
    }

    /// Creates a peer for a connector that is only a sink.
    pub(super) fn of_sink(sink: Make<dyn DynSink>) -> Self {
        let none = Box::new(|_: &_| Err(Error::internal("no source")));
        Self { sides: Sides::SINK, ..Self::new(none, sink) }
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Vec<&'static str>> {
        lock(&self.calls)
    }

    /// Returns the connection of the last instance.
    pub(super) fn last_connection(&self) -> Arc<Connection> {
        lock(&self.last).clone()
    }

    /// Returns how often `call` was called.
    pub(super) fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|it| **it == call).count()
    }

    /// Creates a flow with these links, in which this peer is that of the connector `peer`.
    pub(super) fn flow(self: &Arc<Self>, links: &str) -> Setup {
        Setup { control: self.control.clone(), ..Setup::of(links) }.connect("peer", self)
    }

    /// Creates a flow from this peer to a sink that accepts everything.
    pub(super) fn source(self: &Arc<Self>, reconnect: flow::Retry) -> Setup {
        let setup = self.flow("peer -> main -> sink").set("peer", |it| it.reconnect = reconnect);
        setup.connect("sink", &ScriptedSink(SinkScript::of([])).peer())
    }

    pub(super) fn make(self: Arc<Self>) -> MakeConnector {
        Box::new(move |connection, _| {
            let (peer, connection) = (self.clone(), connection.clone());
            peer.calls().push("new");
            lock(&peer.news).pop_front().unwrap_or(Ok(()))?;
            *lock(&peer.last) = connection.clone();
            Ok(Box::new(Instance { peer, connection }))
        })
    }
}

struct Instance {
    peer: Arc<Peer>,
    connection: Arc<Connection>,
}

impl Instance {
    fn called(&self, call: &'static str) {
        self.peer.calls().push(call);
        self.peer.most_waiting.fetch_max(self.peer.control.waiting(), Ordering::Relaxed);
    }
}

impl DynConnector for Instance {
    fn codec_requirement(&self) -> CodecRequirement {
        CodecRequirement::Required
    }

    fn sides(&self) -> Sides {
        self.peer.sides
    }

    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        self.called("connect");
        let mut connects = lock(&self.peer.connects);
        let connected = connects.pop_front().unwrap_or(Ok(()));
        drop(connects);
        let halves = connected.and_then(|()| {
            let mut halves = DynHalves { source: None, sink: None };
            if wanted.has_source() && self.peer.sides.has_source() {
                self.called("source");
                halves.source = Some((self.peer.source)(&self.connection)?);
            }
            if wanted.has_sink() && self.peer.sides.has_sink() {
                self.called("sink");
                halves.sink = Some((self.peer.sink)(&self.connection)?);
            }
            Ok(halves)
        });
        Box::pin(async { halves })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        self.called(hook.as_str());
        let takes = lock(&self.peer.close_takes).clone().filter(|_| hook == Hook::CLOSE);
        Box::pin(async move {
            if let Some((clock, duration)) = takes {
                clock.sleep(duration).await;
            }
            Ok(())
        })
    }
}

/// A source whose pulls have these results, which all connections share. `Ok` contains the message to read. The source
/// ends after the last result.
#[derive(Clone, Default)]
pub(super) struct Script(pub(super) Shared<VecDeque<Result<&'static str>>>);

impl Script {
    pub(super) fn of(pulls: impl IntoIterator<Item = Result<&'static str>>) -> Self {
        Self(Arc::new(Mutex::new(pulls.into_iter().collect())))
    }

    pub(super) fn peer(self) -> Arc<Peer> {
        Arc::new(Peer::of_source(Box::new(move |_| Ok(Box::new(self.clone())))))
    }
}

impl DynSource for Script {
    fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        let Some(pull) = self.0.lock().map_err(Error::internal)?.pop_front() else {
            return Poll::Ready(Ok(Pull::Finished));
        };
        batch.push_message(pull?.as_bytes());
        Poll::Ready(Ok(Pull::Events))
    }

    fn give_up(&mut self, _batch: &mut Batch) {}
}
