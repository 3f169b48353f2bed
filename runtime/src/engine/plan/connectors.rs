//! Tasks of connectors, each with its source and its sink.

use std::{collections::HashMap, sync::Arc};

use tremor_pdk::Error;

use super::{
    Helpers, Routers,
    assembly::{pace, preprocessors, terms},
    wiring::Queues,
};
use crate::engine::{
    connector::{self, ConnectorTask, Life},
    control::{
        Control,
        overrun::{CALL_LIMIT, HANG_LIMIT, fail_hanging},
    },
    handle::ConnectorHandle,
    logging::notices::{FlowNotices, Notices},
    parts::{ConnectorType, Parts},
    queue::Receiver,
    retry::{
        backoff::{Attempts, Policy, Restarts},
        breaker::{Breaker, Outage},
    },
    route::router::Router,
    sink::{
        SinkSide, TICK,
        backlog::Backlog,
        postprocessors::Postprocessors,
        retry::{self, Retries},
    },
    source::{SourceSide, intake::Inlet, worker::Worker},
    sync::gauge::Gauge,
};
use crate::{
    codec::MakeCodec,
    flow::{self, Flow, Node, NodeId, Role},
};

/// The breakers of sources.
type Breakers = HashMap<NodeId, Arc<Breaker>>;

/// Parts of connectors, which leave with their tasks.
pub(super) struct Connectors<'p> {
    pub(super) flow: &'p Flow,
    pub(super) parts: &'p dyn Parts,
    pub(super) control: &'p Arc<Control>,
    pub(super) queues: Queues,
    pub(super) postprocessors: HashMap<NodeId, Postprocessors>,
    pub(super) routers: Routers,
    pub(super) helpers: Helpers,
    pub(super) breakers: Breakers,
    pub(super) notices: Arc<FlowNotices>,
}

/// Parts that the sides of a connector have in common.
struct Common<'p> {
    spec: &'p flow::Connector,
    codec: Option<Box<dyn MakeCodec>>,
    notices: Arc<Notices>,
    handle: Arc<ConnectorHandle>,
}

impl<'p> Connectors<'p> {
    /// Makes the task of a connector, or returns `None` if the flow has no use for it.
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
        let ConnectorType { codec, make } = self.parts.connector(spec)?;
        let name: Arc<str> = spec.name.value.as_str().into();
        let sink_id = sink.as_ref().map(|(id, _)| *id);
        let queue = sink_id.map(|id| self.queues.receiver(id));
        let common = Common {
            spec,
            codec,
            notices: Arc::new(Notices::new(name.clone(), self.notices.clone())),
            handle: handle(spec, &name, queue.as_ref().map(Receiver::gauge), control),
        };
        let source = source.map(|(id, router)| self.source(&common, id, router)).transpose()?;
        let outage = Arc::new(self.outage(sink_id));
        let sink = match sink.zip(queue) {
            Some(((id, router), queue)) => {
                Some(self.sink(&common, id, (queue, router), outage.clone())?)
            }
            None => None,
        };
        let reconnect = Policy::of(spec.reconnect, connector::MAX_BACKOFF);
        Ok(Some(ConnectorTask {
            name,
            make,
            source,
            sink,
            reconnect: Attempts::new(reconnect),
            restarts: Restarts::of(spec.restart, reconnect),
            call_limit: spec.call_limit.unwrap_or(CALL_LIMIT),
            control: control.clone(),
            notices: common.notices,
            handle: common.handle,
            outage,
            life: Life::default(),
        }))
    }

    fn source(
        &mut self,
        common: &Common<'p>,
        id: NodeId,
        router: Router,
    ) -> Result<SourceSide, flow::Diagnostic> {
        let Common { spec, codec, notices, handle } = common;
        let decoder = codec.as_deref().map(MakeCodec::decoder).transpose();
        Ok(SourceSide {
            notices: notices.clone(),
            breaker: self.breakers.entry(id).or_default().clone(),
            handle: handle.clone(),
            inlet: Inlet {
                // Zero is for events without a source.
                id: id.number() + 1,
                preprocessors: preprocessors(self.parts, spec, codec.is_some())?,
            },
            worker: Worker {
                router,
                codec: decoder.map_err(|error| self.broken(spec, &error))?,
                pace: pace(spec),
            },
            helpers: self.helpers.remove(&id).unwrap_or_default(),
            control: self.control.clone(),
        })
    }

    /// Makes the sink `id`, which the sources that feed it wait for at the start of the flow.
    fn sink(
        &mut self,
        common: &Common<'p>,
        id: NodeId,
        (queue, router): (Receiver, Router),
        outage: Arc<Outage>,
    ) -> Result<SinkSide, flow::Diagnostic> {
        let Common { spec, codec, notices, handle } = common;
        let graph = &self.flow.graph;
        let sources = graph.sources_of(id).into_iter();
        let sources = sources.map(|id| (id.number(), graph.node(id).name.clone())).collect();
        self.control.add_sink(id.number(), handle.clone(), sources, Arc::downgrade(&outage));
        let encoder = codec.as_deref().map(MakeCodec::encoder).transpose();
        Ok(SinkSide {
            queue,
            router,
            postprocessors: self.postprocessors.remove(&id).unwrap_or_default(),
            codec: encoder.map_err(|error| self.broken(spec, &error))?,
            control: self.control.clone(),
            backlog: Backlog::new(None),
            terms: terms(spec),
            is_grant_logged: false,
            tick: TICK,
            retries: Retries::new(Policy::of(spec.retry, retry::MAX_BACKOFF), notices.clone()),
            undrained: false,
            handle: handle.clone(),
            outage,
        })
    }

    fn broken(&self, spec: &flow::Connector, error: &Error) -> flow::Diagnostic {
        self.flow.error(spec.component.name.at, error.to_string())
    }

    /// Makes the outage of a sink, which the sources that feed it know.
    fn outage(&mut self, sink: Option<NodeId>) -> Outage {
        let graph = &self.flow.graph;
        let feeding = sink.map(|id| graph.sources_of(id)).into_iter().flatten();
        // A peer may wait to be read before it takes anything: the source of the same connector goes on.
        let own = sink.map(|id| graph.node(id).index);
        let feeding = feeding.filter(|id| Some(graph.node(*id).index) != own);
        Outage::new(feeding.map(|id| self.breakers.entry(id).or_default().clone()).collect())
    }
}

/// How things stand with a connector, as its flow knows it.
fn handle(
    spec: &flow::Connector,
    name: &Arc<str>,
    queue: Option<Gauge>,
    control: &Arc<Control>,
) -> Arc<ConnectorHandle> {
    let handle = ConnectorHandle::new(name.clone(), queue)
        .on_failure(spec.on_failure)
        .counted_in(control.memory().account(name));
    let handle = Arc::new(handle);
    control.add(handle.clone());
    fail_hanging(control, name, spec.hang_limit.unwrap_or(HANG_LIMIT));
    handle
}
