//! The tasks of connectors, each with its source and its sink.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Helpers, Routers, assembly::replaceable, placement::when_full, topology::Topology,
    wiring::Queues,
};
use crate::engine::{
    connector::{ConnectorTask, Life, handover::Replaceable},
    control::{
        Control, Treatment,
        overrun::{HANG_LIMIT, fail_hanging},
    },
    disk_queue::{self, DiskQueue},
    handle::ConnectorHandle,
    logging::notices::Notices,
    parts::{ConnectorType, Parts},
    queue::Receiver,
    retry::breaker::{Breaker, Outage},
    route::{relief::Relief, router::Router},
    sink::{
        SinkSide, TICK, backlog::Backlog, parts::SinkParts, postprocessors::Postprocessors,
        retry::Retries,
    },
    source::{SourceSide, intake::IntakeState, parts::SourceParts, worker::Worker},
    sync::{flush_request::FlushRequest, gauge::Gauge},
    tracking::stats::FlowCounters,
};
use crate::flow::{self, Flow, Node, NodeId, Role, owner_of};

/// Circuit breakers by the node of the source.
type Breakers = HashMap<NodeId, Arc<Breaker>>;

/// Parts of connectors, from which [`Connectors::task`] takes those of one task.
pub(super) struct Connectors<'p> {
    pub(super) flow: &'p Flow,
    pub(super) parts: &'p dyn Parts,
    pub(super) control: &'p Arc<Control>,
    pub(super) queues: Queues,
    pub(super) postprocessors: HashMap<NodeId, Postprocessors>,
    pub(super) routers: Routers,
    pub(super) helpers: Helpers,
    /// Sinks for which a source encodes.
    pub(super) encoded: HashSet<NodeId>,
    pub(super) breakers: Breakers,
    /// Numbers of the nodes, and notices of the flow.
    pub(super) topology: &'p Topology,
    /// `true` if the connectors join a flow that runs. No source feeds them before the reload has linked them.
    pub(super) joins: bool,
    pub(super) counters: &'p FlowCounters,
    /// Flush requests by the name of the sink.
    pub(super) flush_requests: HashMap<String, Arc<FlushRequest>>,
}

impl Connectors<'_> {
    /// Creates the task of the connector at `index`, or returns `None` if no link of the flow uses the connector.
    pub(super) fn task(&mut self, index: usize) -> Result<Option<ConnectorTask>, flow::Diagnostic> {
        let (flow, control) = (self.flow, self.control);
        let spec = &flow.spec.connectors[index];
        let mut side = |role| {
            let found = |(_, node): &(NodeId, &Node)| node.role == role && node.index == index;
            let id = flow.graph.nodes().find(found)?.0;
            Some((id, self.routers.remove(&id)?))
        };
        let (source, sink) = (side(Role::Source), side(Role::Sink));
        if source.is_none() && sink.is_none() {
            return Ok(None);
        }
        let kind =
            if spec.is_queue() { self.disk_queue(spec)? } else { self.parts.connector(spec)? };
        let name: Arc<str> = spec.name.value.as_str().into();
        let sink_id = sink.as_ref().map(|(id, _)| *id);
        let postprocessors = sink_id.map(|id| self.postprocessors.remove(&id).unwrap_or_default());
        let replaceable =
            replaceable(flow, self.parts, spec, kind, source.is_some(), postprocessors)?;
        let Replaceable { make, reconnect, restarts, call_limit, source: of_source, sink: of_sink } =
            replaceable;
        let helpers = source.as_ref().and_then(|(id, _)| self.helpers.remove(id));
        let helpers = helpers.unwrap_or_default();
        let is_encoded = sink_id.is_some_and(|id| self.encoded.contains(&id));
        // The receiver of the queue ends its sending side, so the outage comes first.
        let outage = Arc::new(self.outage(sink_id));
        let queue = sink_id.map(|id| self.queues.receiver(id));
        let mut task = ConnectorTask {
            notices: Arc::new(Notices::new(
                name.clone(),
                self.topology.notices(),
                self.control.clock().clone(),
            )),
            handle: handle(spec, &name, queue.as_ref().map(Receiver::gauge), control),
            name,
            make,
            source: None,
            sink: None,
            reconnect,
            restarts,
            call_limit,
            control: control.clone(),
            outage,
            handover: Arc::default(),
            is_coded_elsewhere: is_encoded || !helpers.is_empty(),
            life: Life::default(),
        };
        if let Some((source, parts)) = source.zip(of_source) {
            task.source = Some(self.source(&task, spec, parts, source, helpers));
        }
        if let Some(((sink, queue), parts)) = sink.zip(queue).zip(of_sink) {
            task.sink = Some(self.sink(&task, spec, parts, (sink, queue)));
        }
        Ok(Some(task))
    }

    /// Returns the flush request that the queue on disk of a sink sets.
    fn flush_request(&mut self, sink: &str) -> Arc<FlushRequest> {
        self.flush_requests.entry(sink.to_owned()).or_default().clone()
    }

    /// Returns the connector of a queue on disk.
    fn disk_queue(&mut self, spec: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic> {
        let (flow, name) = (self.flow, spec.name.value.as_str());
        let Some(disk) = &spec.queue.disk else {
            return Err(flow.error(spec.name.at, format!("queue `{name}` has no folder")));
        };
        let sink = owner_of(name);
        let path = flow.folder().join(&disk.path.value);
        let queue = DiskQueue {
            name: name.into(),
            sink: sink.into(),
            when_full: spec.queue.when_full,
            stats: self.counters.of(name, Role::Sink),
            path: std::path::absolute(&path).unwrap_or(path),
            max_bytes: disk.max_bytes.get(),
            identify: disk.identify,
            owner: format!("{}/{sink}", flow.name()),
            disk: self.parts.disk(),
            control: self.control.clone(),
            counters: self.counters.stored(sink),
            flush_request: self.flush_request(sink),
            account: self.control.memory().account(sink),
        };
        queue.connector().map_err(|error| flow.error(disk.path.at, error.to_string()))
    }

    fn source(
        &mut self,
        task: &ConnectorTask,
        spec: &flow::Connector,
        SourceParts { preprocessors, codec, sizer }: SourceParts,
        (id, router): (NodeId, Router),
        helpers: Vec<Worker>,
    ) -> SourceSide {
        SourceSide {
            notices: task.notices.clone(),
            breaker: self.breakers.entry(id).or_default().clone(),
            handle: task.handle.clone(),
            intake: IntakeState {
                // Events without a source have the number 0.
                id: self.topology.number(self.flow.graph.node(id)) + 1,
                preprocessors,
            },
            worker: Worker { router, codec, sizer },
            helpers,
            waits_for_memory: !spec.is_queue(),
            control: self.control.clone(),
        }
    }

    /// Creates the sink of a connector and adds it to the control, so that the sources before it wait for the first
    /// connection of the sink.
    fn sink(
        &mut self,
        task: &ConnectorTask,
        spec: &flow::Connector,
        SinkParts { postprocessors, codec, terms, retry }: SinkParts,
        ((id, router), queue): ((NodeId, Router), Receiver),
    ) -> SinkSide {
        let graph = &self.flow.graph;
        let sources = graph.sources_of(id).into_iter();
        let sources = sources.map(|id| graph.node(id));
        let sources: Vec<_> =
            sources.map(|node| (self.topology.number(node), node.name.clone())).collect();
        let names = sources.iter().map(|(_, name)| name.clone()).collect();
        self.control.add_sink(
            self.topology.number(graph.node(id)),
            task.handle.clone(),
            if self.joins { Vec::new() } else { sources },
            Arc::downgrade(&task.outage),
            Treatment {
                when_full: spec.when_memory_is_full(),
                is_stored: spec.is_stored(),
                has_senders: queue.has_senders(),
            },
        );
        SinkSide {
            queue,
            relief: Relief::new(names, &router),
            router,
            postprocessors,
            codec,
            control: self.control.clone(),
            backlog: Backlog::new(None, self.control.clock().clone())
                .shared_in(task.outage.stalled())
                .at_most(spec.is_queue().then_some(disk_queue::MOST_STAGED)),
            terms,
            is_grant_logged: false,
            tick: TICK,
            retries: Retries::new(retry, task.notices.clone(), self.control.clock().clone()),
            undrained: false,
            handle: task.handle.clone(),
            outage: task.outage.clone(),
            when_full: spec.when_memory_is_full(),
            when_disk_is_full: spec.when_disk_is_full(),
            is_stored: spec.is_stored(),
            flush_request: self.flush_request(&spec.name.value),
            silent_since: None,
            is_other: false,
        }
    }

    /// Creates the outage state of a sink, which opens the circuit breakers of the sources that feed the sink.
    fn outage(&mut self, sink: Option<NodeId>) -> Outage {
        let graph = &self.flow.graph;
        let feeding = sink.map(|id| graph.sources_of(id)).into_iter().flatten();
        // The source of the same connector has to continue, because the peer may accept no events before its own data
        // was read.
        let own = sink.map(|id| graph.node(id).index);
        // A sink whose queue gives batches up stops no source.
        let blocks = sink.is_none_or(|id| when_full(self.flow, graph.node(id)).blocks());
        let feeding = feeding.filter(|id| blocks && Some(graph.node(*id).index) != own);
        let breakers = feeding.map(|id| self.breakers.entry(id).or_default().clone()).collect();
        let stalled = sink.map(|id| self.queues.stalled(id)).unwrap_or_default();
        let outage = Outage::new(breakers, stalled);
        if !blocks {
            // No source waits for the first connection, so the queue may have to give batches up before it.
            outage.begin();
        }
        outage
    }
}

/// Creates the handle of a connector and registers it with the control of the flow.
fn handle(
    spec: &flow::Connector,
    name: &Arc<str>,
    queue: Option<Gauge>,
    control: &Arc<Control>,
) -> Arc<ConnectorHandle> {
    let handle = ConnectorHandle::new(name.clone(), queue, control.clock().clone())
        .on_failure(spec.on_failure)
        .counted_in(control.memory().account(owner_of(name)));
    let handle = Arc::new(handle);
    control.add(handle.clone());
    fail_hanging(control, name, spec.hang_limit.unwrap_or(HANG_LIMIT));
    handle
}
