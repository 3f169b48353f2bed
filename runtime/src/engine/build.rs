//! From a checked flow to tasks: which task runs what, and what stands between them.

use std::{collections::HashMap, num::NonZeroU64, sync::Arc};

use tremor_pdk::{Error, abi::batch::Pool};

use super::{
    backoff::{Attempts, Policy},
    connector::{self, ConnectorTask},
    control::Control,
    intake::Inlet,
    notices::{FlowNotices, Notices},
    pace::Pace,
    parts::{ConnectorType, Parts},
    pipeline::PipelineTask,
    queue::{self, Bounds, Receiver, Sender},
    retry::{self, Retries},
    router::{Encoding, Outlet, Router},
    routes::{Ports, Routes, Target},
    sink::SinkSide,
    source::SourceSide,
    spin,
    stage::{Stage, Step},
    standing::Standing,
    stats::{Books, Kind, Stats},
    worker::Worker,
};
use crate::{
    codec::MakeCodec,
    flow::{self, ERR, Flow, Node, NodeId, OUT, Role},
    processor::{self, Chain, Framing},
};

/// Unused batch storages that a flow keeps: as many as a few full queues hold in small batches,
/// and those that are being filled and delivered.
const POOLED: usize = 128;

/// Tasks that take the batches of one source through, at most: what they do in turn, they do not do
/// faster for being more.
const HANDS: usize = 4;

/// Everything that runs a flow.
pub(crate) struct Tasks {
    pub(crate) connectors: Vec<ConnectorTask>,
    pub(crate) pipelines: Vec<PipelineTask>,
}

/// Plans and makes the tasks of a flow.
///
/// # Errors
/// What keeps a component from being made, at its place in the flow.
pub(crate) fn tasks(
    flow: &Flow,
    parts: &dyn Parts,
    control: &Arc<Control>,
    books: &mut Books,
) -> Result<Tasks, flow::Error> {
    let graph = &flow.graph;
    let runners = runners(flow, parts);
    let mut queues = Queues::new(flow, &runners, books);
    let mut framings = framings(flow, parts)?;
    let pool = Pool::new(POOLED);
    let mut routers: HashMap<NodeId, Router> = HashMap::new();
    let mut helpers: HashMap<NodeId, Vec<Worker>> = HashMap::new();
    for (id, _) in graph.nodes().filter(|(id, _)| runners.run_by(*id, *id)) {
        let plan = Plan {
            flow,
            parts,
            runners: &runners,
            queues: &queues,
            framings: &framings,
            control,
            owner: id,
        };
        let Routed { router, sink } = plan.router(&pool, books)?;
        if let Some(sink) = sink {
            helpers.insert(id, plan.helpers(&router, sink)?);
        }
        routers.insert(id, router);
    }
    let mut tasks = Tasks { connectors: Vec::new(), pipelines: Vec::new() };
    let all_notices = Arc::<FlowNotices>::default();
    for (index, spec) in flow.spec.connectors.iter().enumerate() {
        let mut side = |role| {
            let found = |(_, node): &(NodeId, &Node)| node.role == role && node.index == index;
            let id = graph.nodes().find(found)?.0;
            Some((id, routers.remove(&id)?))
        };
        let (source, sink) = (side(Role::Source), side(Role::Sink));
        if source.is_none() && sink.is_none() {
            continue;
        }
        let ConnectorType { codec, make } = parts.connector(spec)?;
        let name: Arc<str> = spec.name.value.as_str().into();
        let notices = Arc::new(Notices::new(name.clone(), all_notices.clone()));
        let is_raw = codec.is_some();
        let broken = |error: Error| flow.error(spec.component.name.at, error.to_string());
        let codec = codec.as_deref();
        let source = match source {
            Some((id, router)) => Some(SourceSide {
                inlet: Inlet {
                    id: u32::try_from(id.index()).unwrap_or(u32::MAX),
                    preprocessors: preprocessors(parts, spec, is_raw)?,
                },
                worker: Worker {
                    router,
                    codec: codec.map(MakeCodec::decoder).transpose().map_err(broken)?,
                    pace: pace(spec),
                },
                helpers: helpers.remove(&id).unwrap_or_default(),
                control: control.clone(),
            }),
            None => None,
        };
        let queue = sink.as_ref().map(|(id, _)| queues.receiver(*id));
        let gauge = queue.as_ref().map(Receiver::gauge);
        let standing = Arc::new(Standing::new(spec.name.value.as_str().into(), gauge));
        control.add(standing.clone());
        let sink = match sink.zip(queue) {
            Some(((id, router), queue)) => Some(SinkSide {
                queue,
                router,
                framing: framings.remove(&id).unwrap_or_default(),
                codec: codec.map(MakeCodec::encoder).transpose().map_err(broken)?,
                control: control.clone(),
                pending: std::collections::VecDeque::new(),
                retries: Retries::new(Policy::of(spec.retry, retry::MAX_BACKOFF), notices.clone()),
                undrained: false,
                standing: standing.clone(),
            }),
            None => None,
        };
        tasks.connectors.push(ConnectorTask {
            name,
            make,
            source,
            sink,
            reconnect: Attempts::new(Policy::of(spec.reconnect, connector::MAX_BACKOFF)),
            control: control.clone(),
            notices,
            sink_seen: false,
            is_down: false,
            settling: None,
            standing,
            retires: None,
        });
    }
    for (id, router) in routers {
        let queue = queues.receiver(id);
        tasks.pipelines.push(PipelineTask { queue, router, control: control.clone() });
    }
    Ok(tasks)
}

/// Which tasks run a node, each named by the source, sink or pipeline that it is.
struct Runners(HashMap<NodeId, Vec<NodeId>>);

/// Sources and sinks run themselves. A pipeline is run by the one task that feeds it. Where there
/// are several, each of them runs it, if its operators keep nothing between batches; otherwise it
/// is a task of its own. What nothing feeds is run by nobody.
fn runners(flow: &Flow, parts: &dyn Parts) -> Runners {
    let graph = &flow.graph;
    let mut runners = Runners(HashMap::new());
    // In topological order, so that what feeds a node has its runners already.
    for (id, node) in graph.nodes() {
        let feeding = node.inputs.iter().flat_map(|edge| runners.of(graph.edge(*edge).from));
        let mut feeding: Vec<NodeId> = feeding.copied().collect();
        feeding.sort_unstable();
        feeding.dedup();
        let is_shared = || {
            let operators = &flow.spec.pipelines[node.index].operators;
            operators.iter().all(|operator| parts.is_stateless(operator))
        };
        let runs = match node.role {
            Role::Pipeline if feeding.len() < 2 || is_shared() => feeding,
            Role::Source | Role::Sink | Role::Pipeline => vec![id],
        };
        runners.0.insert(id, runs);
    }
    runners
}

impl Runners {
    fn of(&self, id: NodeId) -> &[NodeId] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    fn run_by(&self, id: NodeId, owner: NodeId) -> bool {
        self.of(id).contains(&owner)
    }
}

/// The queues of a flow: before each sink, and before each pipeline that is a task.
struct Queues {
    senders: HashMap<NodeId, (Sender, Arc<Stats>)>,
    receivers: HashMap<NodeId, Receiver>,
}

impl Queues {
    fn new(flow: &Flow, runners: &Runners, books: &mut Books) -> Self {
        let mut queues = Self { senders: HashMap::new(), receivers: HashMap::new() };
        for (id, node) in flow.graph.nodes() {
            let bounds = match node.role {
                Role::Sink => bounds(&flow.spec.connectors[node.index]),
                Role::Pipeline if runners.run_by(id, id) => Bounds::default(),
                Role::Pipeline | Role::Source => continue,
            };
            let (sender, receiver) = queue::bounded(bounds);
            queues.senders.insert(id, (sender, books.of(&node.name, kind(node.role))));
            queues.receivers.insert(id, receiver);
        }
        queues
    }

    /// The end that events go into.
    fn outlet(&self, id: NodeId) -> Option<Outlet> {
        let (queue, stats) = self.senders.get(&id)?.clone();
        Some(Outlet { queue, stats })
    }

    /// The queue's end; its own sender goes, so that it ends with those who feed it.
    fn receiver(&mut self, id: NodeId) -> Receiver {
        self.senders.remove(&id);
        self.receivers.remove(&id).unwrap_or_else(|| queue::bounded(Bounds::default()).1)
    }
}

fn kind(role: Role) -> Kind {
    match role {
        Role::Source => Kind::Source,
        Role::Pipeline => Kind::Pipeline,
        Role::Sink => Kind::Sink,
    }
}

/// The codec of a source or sink; none for structured connectors.
fn codec(
    flow: &Flow,
    parts: &dyn Parts,
    node: &Node,
) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic> {
    parts.codec(&flow.spec.connectors[node.index])
}

/// What happens to the messages of each sink behind its codec.
fn framings(flow: &Flow, parts: &dyn Parts) -> Result<HashMap<NodeId, Framing>, flow::Diagnostic> {
    let sinks = flow.graph.nodes().filter(|(_, node)| node.role == Role::Sink);
    let framing = |(id, node): (NodeId, &Node)| {
        let is_raw = codec(flow, parts, node)?.is_some();
        Ok((id, framing(parts, &flow.spec.connectors[node.index], is_raw)?))
    };
    sinks.map(framing).collect()
}

/// The router of a task.
struct Routed {
    router: Router,
    /// The sink that it feeds, where it is a source's and feeds that and nobody else.
    sink: Option<NodeId>,
}

/// What one task runs.
struct Plan<'p> {
    flow: &'p Flow,
    parts: &'p dyn Parts,
    runners: &'p Runners,
    queues: &'p Queues,
    framings: &'p HashMap<NodeId, Framing>,
    control: &'p Arc<Control>,
    owner: NodeId,
}

impl Plan<'_> {
    fn router(&self, pool: &Pool, books: &mut Books) -> Result<Routed, flow::Diagnostic> {
        let graph = &self.flow.graph;
        let own = graph.node(self.owner);
        let staged: Vec<NodeId> = graph
            .nodes()
            .filter(|(id, node)| {
                node.role == Role::Pipeline && self.runners.run_by(*id, self.owner)
            })
            .map(|(id, _)| id)
            .collect();
        let mut targets = Targets { flow: self.flow, staged: &staged, queued: Vec::new() };
        let ports = match own.role {
            Role::Pipeline => {
                let own = staged.iter().position(|id| *id == self.owner);
                Ports { out: own.map(Target::Stage).into_iter().collect(), ..Ports::default() }
            }
            Role::Source | Role::Sink => targets.ports(own),
        };
        let mut stages = Vec::new();
        for id in &staged {
            let node = graph.node(*id);
            let mut port = |node: &Node, port: &str| targets.port(node, port);
            let steps = steps(self.flow, self.parts, node, &mut port)?;
            let ports = targets.ports(node);
            let stats = books.of(&node.name, Kind::Pipeline);
            stages.push(Stage { name: node.name.as_str().into(), steps, ports, stats });
        }
        let queues = targets.queued.iter().filter_map(|id| self.queues.outlet(*id)).collect();
        // What comes to a pipeline with a task of its own has changed cores already.
        let sink = match targets.queued[..] {
            [one] if own.role == Role::Source && graph.node(one).role == Role::Sink => Some(one),
            _ => None,
        };
        let encoding = match sink {
            Some(sink) => self.encoding(sink)?,
            None => None,
        };
        // What one core decodes and encodes it keeps apart from what others do.
        let pool = if encoding.is_some() { Pool::new(POOLED) } else { pool.clone() };
        let name = own.name.as_str().into();
        let stats = books.of(&own.name, kind(own.role));
        // A pipeline counts what goes through its stage.
        let routed = if own.role == Role::Pipeline { Arc::default() } else { stats.clone() };
        let routes = Routes::new(name, ports, stages, pool.clone(), routed, self.control.clone());
        let router = Router::new(routes, queues, encoding, pool, stats);
        Ok(Routed { router, sink })
    }

    /// What it takes to encode for a sink; none where that is left to the sink.
    fn encoding(&self, sink: NodeId) -> Result<Option<Encoding>, flow::Diagnostic> {
        let node = self.flow.graph.node(sink);
        let codec = codec(self.flow, self.parts, node)?;
        let Some(codec) = codec.filter(|codec| codec.is_best_on_one_core()) else {
            return Ok(None);
        };
        let at = self.flow.spec.connectors[node.index].component.name.at;
        let codec = codec.encoder().map_err(|error| self.flow.error(at, error.to_string()))?;
        let suffix = self.framings.get(&sink).map_or_else(Vec::new, |it| it.suffix().to_vec());
        Ok(Some(Encoding { codec, suffix, pool: Pool::new(POOLED) }))
    }

    /// What other tasks need to take batches of a source to its one sink through.
    fn helpers(&self, router: &Router, sink: NodeId) -> Result<Vec<Worker>, flow::Diagnostic> {
        let node = self.flow.graph.node(self.owner);
        let spec = &self.flow.spec.connectors[node.index];
        let codec = codec(self.flow, self.parts, node)?;
        let Some(codec) = codec.filter(|codec| codec.is_best_on_one_core()) else {
            return Ok(Vec::new());
        };
        // Who says how much is pulled wants every run to be the same.
        let count = if pace(spec).is_fixed() { 0 } else { spin::processors().min(HANDS) - 1 };
        let at = spec.component.name.at;
        let mut helpers = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(encoding) = self.encoding(sink)? else { break };
            let decoder =
                codec.decoder().map_err(|error| self.flow.error(at, error.to_string()))?;
            helpers.push(Worker {
                router: router.another(encoding, Pool::new(POOLED)),
                codec: Some(decoder),
                pace: Pace::default(),
            });
        }
        Ok(helpers)
    }
}

/// The operators of a pipeline; `port` says where a port leads.
pub(super) fn steps(
    flow: &Flow,
    parts: &dyn Parts,
    node: &Node,
    port: &mut dyn FnMut(&Node, &str) -> Vec<Target>,
) -> Result<Vec<Step>, flow::Diagnostic> {
    let mut make = |component: &flow::Component| {
        let instance = parts.operator(&node.name, component)?;
        let ports = instance.ports.iter().map(|name| port(node, name)).collect();
        Ok(Step::new(instance.operator, instance.make, ports))
    };
    flow.spec.pipelines[node.index].operators.iter().map(&mut make).collect()
}

/// Numbers the targets of one task's ports.
struct Targets<'t> {
    flow: &'t Flow,
    staged: &'t [NodeId],
    queued: Vec<NodeId>,
}

impl Targets<'_> {
    fn ports(&mut self, node: &Node) -> Ports {
        let discards_failed = discards_failed(self.flow, node);
        Ports { out: self.port(node, OUT), err: self.port(node, ERR), discards_failed }
    }

    fn port(&mut self, node: &Node, port: &str) -> Vec<Target> {
        let edges = node.output(port);
        edges.iter().map(|edge| self.target(self.flow.graph.edge(*edge).to)).collect()
    }

    fn target(&mut self, id: NodeId) -> Target {
        if let Some(stage) = self.staged.iter().position(|staged| *staged == id) {
            return Target::Stage(stage);
        }
        let known = self.queued.iter().position(|queued| *queued == id);
        Target::Queue(known.unwrap_or_else(|| {
            self.queued.push(id);
            self.queued.len() - 1
        }))
    }
}

pub(super) fn preprocessors<S>(
    parts: &dyn Parts,
    spec: &flow::Connector,
    is_raw: bool,
) -> Result<Chain<S>, flow::Diagnostic> {
    let make = |component| parts.preprocessor(&spec.name.value, component);
    let mut preprocessors = spec.preprocessors.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    if is_raw {
        preprocessors.push(Box::new(processor::Join::default()));
    }
    Ok(Chain::new(preprocessors))
}

pub(super) fn framing(
    parts: &dyn Parts,
    spec: &flow::Connector,
    is_raw: bool,
) -> Result<Framing, flow::Diagnostic> {
    let mut framing = Framing::default();
    for component in spec.postprocessors.iter().filter(|_| is_raw) {
        framing.push(&component.name.value, parts.postprocessor(&spec.name.value, component)?);
    }
    Ok(framing)
}

/// Whether a component drops what it cannot handle, where its port `err` leads nowhere.
fn discards_failed(flow: &Flow, node: &Node) -> bool {
    match node.role {
        Role::Pipeline => flow.spec.pipelines[node.index].err,
        Role::Source | Role::Sink => flow.spec.connectors[node.index].err,
    }
    .is_some_and(|err| err == flow::OnFailure::Discard)
}

fn pace(spec: &flow::Connector) -> Pace {
    let set = spec.pull.max_events;
    set.map_or_else(Pace::default, |set| Pace::fixed(u32::try_from(set.get()).unwrap_or(u32::MAX)))
}

fn bounds(spec: &flow::Connector) -> Bounds {
    let default = Bounds::default();
    let or = |set: Option<NonZeroU64>, default| {
        set.map_or(default, |set| usize::try_from(set.get()).unwrap_or(usize::MAX))
    };
    Bounds {
        events: or(spec.queue.max_events, default.events),
        bytes: or(spec.queue.max_bytes, default.bytes),
    }
}
