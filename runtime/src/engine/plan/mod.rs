//! From a checked flow to tasks: which task runs what, and what stands between them.

pub(crate) mod assembly;
mod placement;
mod wiring;

use std::{collections::HashMap, sync::Arc};

use tremor_abi::batch::Pool;
use tremor_pdk::Error;

use self::{
    assembly::{codec, framings, pace, preprocessors, steps, terms},
    placement::{Runners, runners},
    wiring::{Queues, Targets},
};
use crate::engine::{
    account::stats::Books,
    connector::{self, ConnectorTask, Life},
    life::{
        backoff::{Attempts, Policy, Restarts},
        breaker::{Breaker, Outage},
        control::Control,
        gauge::Gauge,
        notices::{FlowNotices, Notices},
        overrun::{CALL_LIMIT, HANG_LIMIT, fail_hanging},
        standing::Standing,
    },
    parts::{ConnectorType, Parts},
    pipeline::PipelineTask,
    queue::Receiver,
    route::{
        pipeline::{Pipeline, Step},
        router::{Encoding, Router},
        routes::Routes,
    },
    sink::{
        SinkSide, TICK,
        backlog::Backlog,
        retry::{self, Retries},
    },
    source::{SourceSide, intake::Inlet, pace::Pace, worker::Worker},
    target::{Ports, Target},
    tuning::POOLED,
};
use crate::{
    codec::MakeCodec,
    flow::{self, Flow, Node, NodeId, Role},
    processor::Framing,
};

/// Everything that runs a flow.
#[derive(Default)]
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
    let mut queues = Queues::new(flow, &runners, books, control);
    let mut framings = framings(flow, parts)?;
    let plan = |owner| Plan {
        flow,
        parts,
        runners: &runners,
        queues: &queues,
        framings: &framings,
        control,
        owner,
    };
    let owners = graph.nodes().map(|(id, _)| id).filter(|id| runners.run_by(*id, *id));
    let (mut routers, mut helpers) = routers(owners.map(plan), books)?;
    let mut tasks = Tasks::default();
    let (mut breakers, all_notices) = (Breakers::new(), Arc::<FlowNotices>::default());
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
        let queue = sink.as_ref().map(|(id, _)| queues.receiver(*id));
        let gauge = queue.as_ref().map(Receiver::gauge);
        let standing = standing(spec, &name, gauge, control);
        let source = match source {
            Some((id, router)) => Some(SourceSide {
                notices: notices.clone(),
                breaker: breakers.entry(id).or_default().clone(),
                standing: standing.clone(),
                inlet: Inlet {
                    // Zero is for events without a source.
                    id: id.number() + 1,
                    preprocessors: preprocessors(parts, spec, is_raw)?,
                },
                worker: Worker {
                    router,
                    codec: codec.as_deref().map(MakeCodec::decoder).transpose().map_err(broken)?,
                    pace: pace(spec),
                },
                helpers: helpers.remove(&id).unwrap_or_default(),
                control: control.clone(),
            }),
            None => None,
        };
        let outage = Arc::new(outage(flow, sink.as_ref().map(|(id, _)| *id), &mut breakers));
        sink.iter().for_each(|(id, _)| add_sink(flow, *id, control, &standing, &outage));
        let sink = match sink.zip(queue) {
            Some(((id, router), queue)) => Some(SinkSide {
                queue,
                router,
                framing: framings.remove(&id).unwrap_or_default(),
                codec: codec.as_deref().map(MakeCodec::encoder).transpose().map_err(broken)?,
                control: control.clone(),
                backlog: Backlog::new(None),
                terms: terms(spec),
                is_grant_logged: false,
                tick: TICK,
                retries: Retries::new(Policy::of(spec.retry, retry::MAX_BACKOFF), notices.clone()),
                undrained: false,
                standing: standing.clone(),
                outage: outage.clone(),
            }),
            None => None,
        };
        let reconnect = Policy::of(spec.reconnect, connector::MAX_BACKOFF);
        tasks.connectors.push(ConnectorTask {
            name,
            make,
            source,
            sink,
            reconnect: Attempts::new(reconnect),
            restarts: Restarts::of(spec.restart, reconnect),
            call_limit: spec.call_limit.unwrap_or(CALL_LIMIT),
            control: control.clone(),
            notices,
            standing,
            outage,
            life: Life::default(),
        });
    }
    for (id, router) in routers {
        let queue = queues.receiver(id);
        tasks.pipelines.push(PipelineTask { queue, router, control: control.clone() });
    }
    Ok(tasks)
}

/// The routers of tasks, by the node that owns the task.
type Routers = HashMap<NodeId, Router>;

/// The helpers of sources.
type Helpers = HashMap<NodeId, Vec<Worker>>;

/// Makes the router of each task, and the helpers of the sources that have some.
fn routers<'p>(
    plans: impl Iterator<Item = Plan<'p>>,
    books: &mut Books,
) -> Result<(Routers, Helpers), flow::Diagnostic> {
    let pool = Pool::new(POOLED);
    let (mut routers, mut helpers) = (HashMap::new(), HashMap::new());
    for plan in plans {
        let Routed { router, sink } = plan.router(&pool, books)?;
        if let Some(sink) = sink {
            helpers.insert(plan.owner, plan.helpers(&router, sink)?);
        }
        routers.insert(plan.owner, router);
    }
    Ok((routers, helpers))
}

/// Has the sources that feed a sink wait for it at the start of the flow.
fn add_sink(
    flow: &Flow,
    id: NodeId,
    control: &Control,
    standing: &Arc<Standing>,
    outage: &Arc<Outage>,
) {
    let sources = flow.graph.sources_of(id).into_iter();
    let sources = sources.map(|id| (id.number(), flow.graph.node(id).name.clone())).collect();
    control.add_sink(id.number(), standing.clone(), sources, Arc::downgrade(outage));
}

/// How things stand with a connector, as its flow knows it.
fn standing(
    spec: &flow::Connector,
    name: &Arc<str>,
    queue: Option<Gauge>,
    control: &Arc<Control>,
) -> Arc<Standing> {
    let standing = Standing::new(name.clone(), queue)
        .on_failure(spec.on_failure)
        .counted_in(control.memory().account(name));
    let standing = Arc::new(standing);
    control.add(standing.clone());
    fail_hanging(control, name, spec.hang_limit.unwrap_or(HANG_LIMIT));
    standing
}

/// The breakers of sources.
type Breakers = HashMap<NodeId, Arc<Breaker>>;

/// What the sources that feed a sink know of it.
fn outage(flow: &Flow, sink: Option<NodeId>, breakers: &mut Breakers) -> Outage {
    let feeding = sink.map(|id| flow.graph.sources_of(id)).into_iter().flatten();
    // A peer may wait to be read before it takes anything: the source of the same connector goes on.
    let own = sink.map(|id| flow.graph.node(id).index);
    let feeding = feeding.filter(|id| Some(flow.graph.node(*id).index) != own);
    Outage::new(feeding.map(|id| breakers.entry(id).or_default().clone()).collect())
}

/// The router of a task.
struct Routed {
    router: Router,
    /// The sink that it feeds, where it is a source's and feeds nothing else.
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
                Ports { out: own.map(Target::Pipeline).into_iter().collect(), ..Ports::default() }
            }
            Role::Source | Role::Sink => targets.ports(own),
        };
        let mut pipelines = Vec::new();
        for id in &staged {
            let node = graph.node(*id);
            let mut port = |node: &Node, port: &str| targets.port(node, port);
            let steps = steps(self.flow, self.parts, node, &mut port)?;
            let ports = targets.ports(node);
            let stats = books.of(&node.name, Role::Pipeline);
            let sources = graph.sources_of(*id).into_iter();
            let sources = sources.map(|id| graph.node(id).name.clone()).collect();
            let counted = stats.clone();
            let events = Box::new(move || counted.counts().in_flight());
            self.control.add_pipeline(&node.name, sources, events);
            fail_hanging(self.control, &node.name, HANG_LIMIT);
            let own = steps.iter().flat_map(Step::ports).map(str::to_owned).collect();
            books.has_ports(&node.name, Role::Pipeline, own);
            pipelines.push(Pipeline { name: node.name.as_str().into(), steps, ports, stats });
        }
        let outlet = |id: &NodeId| self.queues.outlet(*id, self.owner);
        let queues = targets.queued.iter().filter_map(outlet).collect();
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
        let stats = books.of(&own.name, own.role);
        // A pipeline counts what goes through its pipeline.
        let routed = if own.role == Role::Pipeline { Arc::default() } else { stats.clone() };
        let routes =
            Routes::new(name, ports, pipelines, pool.clone(), routed, self.control.clone());
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
        let terminator = self.framings.get(&sink).map(|it| it.terminator().clone());
        let terminator = terminator.unwrap_or_default();
        Ok(Some(Encoding { codec, terminator, pool: Pool::new(POOLED) }))
    }

    /// What other tasks need to take batches of a source to its one sink through.
    fn helpers(&self, router: &Router, sink: NodeId) -> Result<Vec<Worker>, flow::Diagnostic> {
        let node = self.flow.graph.node(self.owner);
        let spec = &self.flow.spec.connectors[node.index];
        let codec = codec(self.flow, self.parts, node)?;
        let Some(codec) = codec.filter(|codec| codec.is_best_on_one_core()) else {
            return Ok(Vec::new());
        };
        // Where the flow says how much is pulled, every run is to be the same.
        let others = self.control.processors().count().saturating_sub(1);
        let count = if pace(spec).is_fixed() { 0 } else { others };
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
