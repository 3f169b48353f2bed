//! From a checked flow to tasks: which task runs what, and what stands between them.

use std::{collections::HashMap, num::NonZeroU64, sync::Arc, time::Duration};

use tremor_pdk::{Error, Operator, Output, Postprocessor, Preprocessor, abi::batch::Pool};

use super::{
    balance::Balance,
    connector::{ConnectorTask, Factory, Retry},
    control::Control,
    pace::Pace,
    pipeline::PipelineTask,
    queue::{self, Bounds, Receiver, Sender},
    router::{Encoding, Router},
    routes::{Ports, Routes, Target},
    sink::SinkSide,
    source::SourceSide,
    stage::{Stage, Step},
    stats::Stats,
};
use crate::{
    codec::{BatchDecoder, MakeCodec},
    flow::{self, ERR, Flow, Graph, Node, NodeId, OUT, Role},
    processor::{self, Framing},
};

/// Unused batch storages that a flow keeps: as many as a few full queues hold in small batches,
/// and those that are being filled and delivered.
const POOLED: usize = 128;

/// Everything that runs a flow.
pub(crate) struct Tasks {
    pub(crate) connectors: Vec<ConnectorTask>,
    pub(crate) pipelines: Vec<PipelineTask>,
}

/// What the engine has to know of a connector's type.
pub(crate) struct ConnectorType {
    /// The codec that it is to be given; none for structured connectors.
    pub(crate) codec: Option<Box<dyn MakeCodec>>,
    pub(crate) make: Factory,
}

/// An operator.
pub(crate) struct OperatorInstance {
    pub(crate) operator: Box<dyn Operator>,
    /// The names of its own ports.
    pub(crate) ports: Vec<String>,
    /// Makes another one, should this one panic; none for what is built in.
    pub(crate) make: Option<MakeOperator>,
}

/// Makes an instance of an operator.
pub(crate) type MakeOperator = Box<dyn Fn() -> Result<Box<dyn Operator>, Error> + Send>;

/// What a flow is made of: whoever knows its components.
pub(crate) trait Parts {
    /// The type of a connector.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn connector(&self, connector: &flow::Connector) -> Result<ConnectorType, flow::Diagnostic>;

    /// The codec of a connector: none for connectors of values.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn codec(
        &self,
        connector: &flow::Connector,
    ) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic>;

    /// An instance of an operator for a pipeline.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn operator(
        &self,
        pipeline: &str,
        operator: &flow::Component,
    ) -> Result<OperatorInstance, flow::Diagnostic>;

    /// A preprocessor.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn preprocessor(
        &self,
        component: &flow::Component,
    ) -> Result<Box<dyn Preprocessor>, flow::Diagnostic>;

    /// A postprocessor.
    ///
    /// # Errors
    /// What is wrong with it, at its place in the flow.
    fn postprocessor(
        &self,
        component: &flow::Component,
    ) -> Result<Box<dyn Postprocessor>, flow::Diagnostic>;
}

/// Which task runs a node: the source, sink or pipeline it is named by.
type Owner = NodeId;

/// Plans and makes the tasks of a flow.
///
/// # Errors
/// What keeps a component from being made, at its place in the flow.
pub(crate) fn tasks(
    flow: &Flow,
    parts: &dyn Parts,
    control: &Arc<Control>,
    stats: &Arc<Stats>,
) -> Result<Tasks, flow::Error> {
    let graph = &flow.graph;
    let owners = owners(graph);
    let mut queues = Queues::new(flow, &owners);
    let mut framings = framings(flow, parts)?;
    let pool = Pool::new(POOLED);
    let mut routers: HashMap<Owner, Router> = HashMap::new();
    // The source of each sink that takes batches as they were pulled.
    let mut lanes: HashMap<NodeId, NodeId> = HashMap::new();
    for (id, node) in graph.nodes().filter(|(id, _)| owners.get(id) == Some(id)) {
        let plan = Plan { flow, parts, owners: &owners, queues: &queues, owner: id };
        let planned = plan.router(&pool, stats, &framings)?;
        routers.insert(id, planned.router);
        if let Some(sink) = planned.sink
            && plan.is_fed_by_owner_alone(sink)
            && codec(flow, parts, node)?.is_some_and(|codec| codec.is_best_on_one_core())
        {
            lanes.insert(sink, id);
        }
    }
    let mut tasks = Tasks { connectors: Vec::new(), pipelines: Vec::new() };
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
        let is_raw = codec.is_some();
        let broken = |error: Error| flow.error(spec.component.name.at, error.to_string());
        let codec = codec.as_deref();
        let source = match source {
            Some((id, router)) => Some(SourceSide {
                id: u32::try_from(id.index()).unwrap_or(u32::MAX),
                router,
                preprocessors: preprocessors(parts, spec, is_raw)?,
                output: Output::new(),
                codec: codec.map(MakeCodec::decoder).transpose().map_err(broken)?,
                pace: pace(spec),
                balance: if lanes.values().any(|source| *source == id) {
                    Balance::even()
                } else {
                    Balance::Never
                },
                handed: Pool::new(POOLED),
                control: control.clone(),
            }),
            None => None,
        };
        let sink = match sink {
            Some((id, router)) => Some(SinkSide {
                queue: queues.receiver(id),
                router,
                framing: framings.remove(&id).unwrap_or_default(),
                codec: codec.map(MakeCodec::encoder).transpose().map_err(broken)?,
                decoder: match lanes.get(&id) {
                    Some(source) => decoder(flow, parts, graph.node(*source))?,
                    None => None,
                },
                control: control.clone(),
                pending: std::collections::VecDeque::new(),
            }),
            None => None,
        };
        tasks.connectors.push(ConnectorTask {
            name: spec.name.value.as_str().into(),
            make,
            source,
            sink,
            retry: retry(spec),
            control: control.clone(),
            sink_seen: false,
        });
    }
    for (id, router) in routers {
        let queue = queues.receiver(id);
        tasks.pipelines.push(PipelineTask { queue, router, control: control.clone() });
    }
    Ok(tasks)
}

/// Sources and sinks run themselves. A pipeline is run by the one task that feeds it, or by a task
/// of its own where there are several. What nothing feeds is run by nobody.
fn owners(graph: &Graph) -> HashMap<NodeId, Owner> {
    let mut owners: HashMap<NodeId, Owner> = HashMap::new();
    // In topological order, so that what feeds a node has its owner already.
    for (id, node) in graph.nodes() {
        let mut feeding: Vec<Owner> = node
            .inputs
            .iter()
            .filter_map(|edge| owners.get(&graph.edge(*edge).from).copied())
            .collect();
        feeding.sort_unstable();
        feeding.dedup();
        match (node.role, &feeding[..]) {
            (Role::Pipeline, []) => {}
            (Role::Pipeline, [owner]) => _ = owners.insert(id, *owner),
            (Role::Source | Role::Sink | Role::Pipeline, _) => _ = owners.insert(id, id),
        }
    }
    owners
}

/// The queues of a flow: before each sink, and before each pipeline that is a task.
struct Queues {
    senders: HashMap<NodeId, Sender>,
    receivers: HashMap<NodeId, Receiver>,
}

impl Queues {
    fn new(flow: &Flow, owners: &HashMap<NodeId, Owner>) -> Self {
        let mut queues = Self { senders: HashMap::new(), receivers: HashMap::new() };
        for (id, node) in flow.graph.nodes() {
            let bounds = match node.role {
                Role::Sink => bounds(&flow.spec.connectors[node.index]),
                Role::Pipeline if owners.get(&id) == Some(&id) => Bounds::default(),
                Role::Pipeline | Role::Source => continue,
            };
            let (sender, receiver) = queue::bounded(bounds);
            queues.senders.insert(id, sender);
            queues.receivers.insert(id, receiver);
        }
        queues
    }

    /// The queue's end; its own sender goes, so that it ends with those who feed it.
    fn receiver(&mut self, id: NodeId) -> Receiver {
        self.senders.remove(&id);
        self.receivers.remove(&id).unwrap_or_else(|| queue::bounded(Bounds::default()).1)
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

/// Another decoder for what a source pulls.
fn decoder(
    flow: &Flow,
    parts: &dyn Parts,
    source: &Node,
) -> Result<Option<Box<dyn BatchDecoder>>, flow::Diagnostic> {
    let at = flow.spec.connectors[source.index].component.name.at;
    let codec = codec(flow, parts, source)?;
    let decoder = codec.as_deref().map(MakeCodec::decoder).transpose();
    decoder.map_err(|error| flow.error(at, error.to_string()))
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
    owners: &'p HashMap<NodeId, Owner>,
    queues: &'p Queues,
    owner: Owner,
}

impl Plan<'_> {
    fn router(
        &self,
        pool: &Pool,
        stats: &Arc<Stats>,
        framings: &HashMap<NodeId, Framing>,
    ) -> Result<Routed, flow::Diagnostic> {
        let graph = &self.flow.graph;
        let own = graph.node(self.owner);
        let staged: Vec<NodeId> = graph
            .nodes()
            .filter(|(id, node)| {
                node.role == Role::Pipeline && self.owners.get(id) == Some(&self.owner)
            })
            .map(|(id, _)| id)
            .collect();
        let mut targets = Targets { graph, staged: &staged, queued: Vec::new() };
        let ports = match own.role {
            Role::Pipeline => {
                let own = staged.iter().position(|id| *id == self.owner);
                Ports { out: own.map(Target::Stage).into_iter().collect(), err: Vec::new() }
            }
            Role::Source | Role::Sink => targets.ports(own),
        };
        let mut stages = Vec::new();
        for id in &staged {
            let node = graph.node(*id);
            let mut port = |node: &Node, port: &str| targets.port(node, port);
            let steps = steps(self.flow, self.parts, node, &mut port)?;
            let ports = targets.ports(node);
            stages.push(Stage { name: node.name.as_str().into(), steps, ports });
        }
        let queues =
            targets.queued.iter().filter_map(|id| self.queues.senders.get(id).cloned()).collect();
        // What comes to a pipeline with a task of its own has changed cores already.
        let sink = match targets.queued[..] {
            [one] if own.role == Role::Source && graph.node(one).role == Role::Sink => Some(one),
            _ => None,
        };
        let encoding = match sink {
            Some(sink) => self.encoding(sink, framings)?,
            None => None,
        };
        // What one core decodes and encodes it keeps apart from what others do.
        let pool = if encoding.is_some() { Pool::new(POOLED) } else { pool.clone() };
        let name = own.name.as_str().into();
        let routes = Routes::new(name, ports, stages, pool.clone(), stats.clone());
        let router = Router::new(routes, queues, encoding, pool, stats.clone());
        Ok(Routed { router, sink })
    }

    /// What it takes to encode for a sink; none where that is left to the sink.
    fn encoding(
        &self,
        sink: NodeId,
        framings: &HashMap<NodeId, Framing>,
    ) -> Result<Option<Encoding>, flow::Diagnostic> {
        let node = self.flow.graph.node(sink);
        let codec = codec(self.flow, self.parts, node)?;
        let Some(codec) = codec.filter(|codec| codec.is_best_on_one_core()) else {
            return Ok(None);
        };
        let at = self.flow.spec.connectors[node.index].component.name.at;
        let codec = codec.encoder().map_err(|error| self.flow.error(at, error.to_string()))?;
        let suffix = framings.get(&sink).map_or_else(Vec::new, |it| it.suffix().to_vec());
        Ok(Some(Encoding { codec, suffix, pool: Pool::new(POOLED) }))
    }

    /// Whether everything that comes to a node comes from the task that is planned.
    fn is_fed_by_owner_alone(&self, id: NodeId) -> bool {
        let graph = &self.flow.graph;
        let mut inputs = graph.node(id).inputs.iter();
        inputs.all(|edge| self.owners.get(&graph.edge(*edge).from) == Some(&self.owner))
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
    graph: &'t Graph,
    staged: &'t [NodeId],
    queued: Vec<NodeId>,
}

impl Targets<'_> {
    fn ports(&mut self, node: &Node) -> Ports {
        Ports { out: self.port(node, OUT), err: self.port(node, ERR) }
    }

    fn port(&mut self, node: &Node, port: &str) -> Vec<Target> {
        let edges = node.output(port);
        edges.iter().map(|edge| self.target(self.graph.edge(*edge).to)).collect()
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

pub(super) fn preprocessors(
    parts: &dyn Parts,
    spec: &flow::Connector,
    is_raw: bool,
) -> Result<Vec<Box<dyn Preprocessor>>, flow::Diagnostic> {
    let make = |component| parts.preprocessor(component);
    let mut preprocessors = spec.preprocessors.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    if is_raw {
        preprocessors.push(Box::new(processor::Join::default()));
    }
    Ok(preprocessors)
}

pub(super) fn framing(
    parts: &dyn Parts,
    spec: &flow::Connector,
    is_raw: bool,
) -> Result<Framing, flow::Diagnostic> {
    let mut framing = Framing::default();
    for component in spec.postprocessors.iter().filter(|_| is_raw) {
        framing.push(&component.name.value, parts.postprocessor(component)?);
    }
    Ok(framing)
}

fn retry(spec: &flow::Connector) -> Retry {
    let reconnect = &spec.reconnect;
    Retry {
        attempts: reconnect.attempts,
        first: reconnect.backoff.unwrap_or(Duration::from_millis(100)),
        max: reconnect.max_backoff.unwrap_or(Duration::from_secs(10)),
    }
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
