//! The plan of a checked flow: its tasks, the pipelines that each task runs, and the queues between tasks.

pub(crate) mod assembly;
mod connectors;
mod placement;
pub(crate) mod rewiring;
pub(crate) mod topology;
mod wiring;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::AtomicBool},
};

use tremor_abi::batch::Pool;

use self::{
    assembly::{FlowRestarts, all_postprocessors, batch_sizer, codec, steps},
    connectors::Connectors,
    placement::{Runners, runners},
    rewiring::{Exchange, Rewiring},
    topology::{TaskLinks, Topology, key},
    wiring::{Queues, Targets},
};
use crate::engine::{
    connector::ConnectorTask,
    control::{
        Control,
        overrun::{HANG_LIMIT, fail_hanging},
    },
    parts::Parts,
    pipeline::PipelineTask,
    route::{
        leading::{Leading, LeadingPart},
        outlets::Outlets,
        pipeline::Pipeline,
        relief::Relief,
        router::{Encoding, Router},
        routes::Routes,
        step::Step,
    },
    sink::postprocessors::Postprocessors,
    source::{batch_sizer::BatchSizer, worker::Worker},
    target::{Ports, Target},
    tracking::stats::{FlowCounters, Stats},
    tuning::POOLED,
};
use crate::{
    codec::MakeCodec,
    flow::{self, Flow, Node, NodeId, Role},
};

/// The tasks of a flow.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) connectors: Vec<ConnectorTask>,
    pub(crate) pipelines: Vec<PipelineTask>,
    pub(crate) topology: Topology,
}

/// The state that a flow shares with its plan.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'p> {
    pub(crate) parts: &'p dyn Parts,
    pub(crate) control: &'p Arc<Control>,
    pub(crate) counters: &'p FlowCounters,
}

/// Plans the tasks of a flow and creates their components.
///
/// # Errors
/// Returns the reason why a component cannot be created, with its location in the flow file.
pub(crate) fn tasks(flow: &Flow, scope: Scope<'_>) -> Result<Tasks, flow::Error> {
    let topology = Topology::continued(&Topology::default(), &flow.graph);
    Ok(join(flow, scope, topology, None)?.0)
}

/// Plans the tasks of a flow that `topology` does not have, and the links that the tasks of the topology get. `rewiring` is
/// `None` if the flow does not run yet.
fn join(
    flow: &Flow,
    Scope { parts, control, counters }: Scope<'_>,
    mut topology: Topology,
    rewiring: Option<&Rewiring<'_>>,
) -> Result<(Tasks, Vec<Exchange>), flow::Error> {
    let runners = runners(flow, parts);
    let queues = Queues::new(flow, &runners, &topology, counters, control);
    let postprocessors = all_postprocessors(flow, parts)?;
    let restarts = FlowRestarts::new(flow);
    let owners = flow.graph.nodes().filter(|(id, _)| runners.run_by(*id, *id));
    let (running, joining): (Vec<_>, Vec<_>) =
        owners.partition(|(_, node)| topology.tasks.contains_key(&key(node)));
    let plan = |(owner, _): (NodeId, &Node)| Plan {
        flow,
        parts,
        runners: &runners,
        queues: &queues,
        postprocessors: &postprocessors,
        restarts: &restarts,
        control,
        topology: &topology,
        owner,
    };
    let mut exchanges = Vec::new();
    if let Some(rewiring) = rewiring {
        for owner in running {
            exchanges.extend(plan(owner).exchange(rewiring, counters)?);
        }
    }
    let (routers, helpers, encoded, links) = routers(joining.into_iter().map(plan), counters)?;
    let sendings: Vec<_> = queues.sendings().collect();
    let mut connectors = Connectors {
        flow,
        parts,
        control,
        queues,
        postprocessors,
        routers,
        helpers,
        encoded,
        breakers: HashMap::new(),
        topology: &topology,
        joins: rewiring.is_some(),
        counters,
        flush_requests: HashMap::new(),
    };
    let mut tasks = Tasks::default();
    for index in 0..flow.spec.connectors.len() {
        tasks.connectors.extend(connectors.task(index)?);
    }
    let Connectors { mut queues, routers, .. } = connectors;
    for (id, router) in routers {
        let queue = queues.receiver(id);
        let relief = Relief::new(sources(flow, id), &router);
        tasks.pipelines.push(PipelineTask { queue, router, control: control.clone(), relief });
    }
    let node = |id| flow.graph.node(id);
    sendings.into_iter().for_each(|(id, sending)| topology.add_queue(node(id), sending));
    topology.tasks.extend(links.into_iter().map(|(id, links)| (key(node(id)), links)));
    for task in &tasks.connectors {
        let name = task.name.to_string();
        if let Some(source) = &task.source {
            topology.breakers.insert(name.clone(), Arc::downgrade(&source.breaker));
        }
        if task.sink.is_some() {
            topology.outages.insert(name, Arc::downgrade(&task.outage));
        }
    }
    tasks.topology = topology;
    Ok((tasks, exchanges))
}

/// Returns the names of the connectors whose events may reach a node.
fn sources(flow: &Flow, id: NodeId) -> Vec<String> {
    let graph = &flow.graph;
    graph.sources_of(id).into_iter().map(|id| graph.node(id).name.clone()).collect()
}

/// Routers by the node that owns the task of the router.
type Routers = HashMap<NodeId, Router>;

/// Workers of the helper tasks, by the node of the source.
type Helpers = HashMap<NodeId, Vec<Worker>>;

/// Links of tasks by the node that owns the task.
type Links = HashMap<NodeId, TaskLinks>;

/// Creates the router of each task, and the helpers of sources that feed a single sink. The third result contains the
/// sinks for which a source encodes.
fn routers<'p>(
    plans: impl Iterator<Item = Plan<'p>>,
    counters: &FlowCounters,
) -> Result<(Routers, Helpers, HashSet<NodeId>, Links), flow::Diagnostic> {
    let pool = Pool::new(POOLED);
    let (mut routers, mut helpers) = (HashMap::new(), HashMap::new());
    let (mut encoded, mut links) = (HashSet::new(), HashMap::new());
    for plan in plans {
        let Routed { mut router, sink, leading } = plan.router(&pool, counters)?;
        let encodes_for = sink.filter(|_| router.encodes());
        encoded.extend(encodes_for);
        if let Some(sink) = sink {
            let codec = plan.parallel_codec(sink)?;
            router.may_have_helpers = codec.is_some();
            let mut all = match codec {
                Some(codec) => plan.helpers(&router, sink, &*codec)?,
                None => Vec::new(),
            };
            if !all.is_empty() && leading.has_operators() {
                let leading = Arc::new(leading);
                router.lead(leading.clone(), false);
                all.iter_mut().for_each(|helper| helper.router.lead(leading.clone(), true));
            }
            helpers.insert(plan.owner, all);
        }
        links.insert(
            plan.owner,
            TaskLinks {
                egress: Arc::downgrade(&router.egress),
                encodes_for: encodes_for.map(|id| plan.flow.graph.node(id).name.clone()),
                leads: router.leads(),
            },
        );
        routers.insert(plan.owner, router);
    }
    Ok((routers, helpers, encoded, links))
}

/// The router of a task.
struct Routed {
    router: Router,
    /// The sink whose queue is the only one that the router of a source feeds. `None` if the router feeds other queues
    /// or does not belong to a source.
    sink: Option<NodeId>,
    /// The operators that helpers run in parallel.
    leading: Leading,
}

/// The plan of one task.
struct Plan<'p> {
    flow: &'p Flow,
    parts: &'p dyn Parts,
    runners: &'p Runners,
    queues: &'p Queues,
    postprocessors: &'p HashMap<NodeId, Postprocessors>,
    restarts: &'p FlowRestarts,
    control: &'p Arc<Control>,
    topology: &'p Topology,
    owner: NodeId,
}

impl Plan<'_> {
    fn router(&self, pool: &Pool, counters: &FlowCounters) -> Result<Routed, flow::Diagnostic> {
        let graph = &self.flow.graph;
        let own = graph.node(self.owner);
        let staged = self.runners.staged(self.flow, self.owner);
        let mut targets = Targets::new(self.flow, &staged, Vec::new());
        let ports = targets.own_ports(self.owner);
        let (mut pipelines, mut leading) = (Vec::new(), Vec::new());
        for id in &staged {
            let node = graph.node(*id);
            let mut port = |node: &Node, port: &str| targets.port(node, port);
            let (steps, operators) = steps(self.flow, self.parts, node, self.restarts, &mut port)?;
            let ports = targets.ports(node);
            let stats = self.add_pipeline(*id, counters);
            let own = steps.iter().flat_map(Step::ports).map(str::to_owned).collect();
            counters.set_ports(&node.name, Role::Pipeline, own);
            let name: Arc<str> = node.name.as_str().into();
            let rest = (operators.len() < steps.len()).then_some(Target::Rest(pipelines.len()));
            let out = rest.map_or_else(|| ports.out.clone(), |rest| vec![rest]);
            leading.push(LeadingPart {
                name: name.clone(),
                operators,
                ports: Ports { out, ..ports.clone() },
                stats: stats.clone(),
            });
            pipelines.push(Pipeline { name, steps, ports, stats });
        }
        targets.add_overflow();
        let queues = self.queues.outlets(&targets, self.topology.number(own));
        let queues = Outlets::new(queues, self.control.clone());
        // Only a source encodes for its sink: a batch that reaches the task of a pipeline has changed cores already.
        let sink = match targets.queued[..] {
            [one] if own.role == Role::Source && graph.node(one).role == Role::Sink => Some(one),
            _ => None,
        };
        let encoding = match sink {
            Some(sink) => self.encoding(sink)?,
            None => None,
        };
        // A source that encodes has a pool of its own, which it does not share with the other tasks of the flow.
        let pool = if encoding.is_some() { Pool::new(POOLED) } else { pool.clone() };
        let name: Arc<str> = own.name.as_str().into();
        let stats = counters.of(&own.name, own.role);
        // In the task of a pipeline, the pipeline inside the router counts the events. The events must not be counted a
        // second time.
        let routed = if own.role == Role::Pipeline { Arc::default() } else { stats.clone() };
        let leading = Leading {
            name: name.clone(),
            ports: ports.clone(),
            stats: stats.clone(),
            control: self.control.clone(),
            pipelines: leading,
            has_helped: AtomicBool::new(false),
        };
        let routes =
            Routes::new(name, ports, pipelines, pool.clone(), routed, self.control.clone());
        let router = Router::new(routes, queues, encoding, pool, stats);
        Ok(Routed { router, sink, leading })
    }

    /// Adds a pipeline to the control and the counters of the flow. Returns its counters.
    fn add_pipeline(&self, id: NodeId, counters: &FlowCounters) -> Arc<Stats> {
        let name = &self.flow.graph.node(id).name;
        let stats = counters.of(name, Role::Pipeline);
        let counted = stats.clone();
        let events = Box::new(move || counted.counts().in_flight());
        self.control.add_pipeline(name, sources(self.flow, id), events);
        fail_hanging(self.control, name, HANG_LIMIT);
        stats
    }

    /// Creates the encoder that a source uses for its single sink. Returns `None` if the sink encodes itself.
    fn encoding(&self, sink: NodeId) -> Result<Option<Encoding>, flow::Diagnostic> {
        let node = self.flow.graph.node(sink);
        let codec = codec(self.flow, self.parts, node)?;
        let Some(codec) = codec.filter(|codec| codec.is_best_on_one_core()) else {
            return Ok(None);
        };
        let at = self.flow.spec.connectors[node.index].component.name.at;
        let codec = codec.encoder().map_err(|error| self.flow.error(at, error.to_string()))?;
        let terminator = self.postprocessors.get(&sink).map(|it| it.terminator().clone());
        let terminator = terminator.unwrap_or_default();
        Ok(Some(Encoding { codec, terminator, pool: Pool::new(POOLED) }))
    }

    /// Returns the codec of the source if several tasks may process its batches. Returns `None` if the codec of the
    /// source or of the sink is not best on one core (`MakeCodec::is_best_on_one_core`), or if the flow sets the number
    /// of events of a pull.
    fn parallel_codec(&self, sink: NodeId) -> Result<Option<Box<dyn MakeCodec>>, flow::Diagnostic> {
        let node = self.flow.graph.node(self.owner);
        // A fixed pull size is meant for runs that repeat the same work. Helpers would make such runs differ.
        if batch_sizer(&self.flow.spec.connectors[node.index]).is_fixed()
            || self.encoding(sink)?.is_none()
        {
            return Ok(None);
        }
        let codec = codec(self.flow, self.parts, node)?;
        Ok(codec.filter(|codec| codec.is_best_on_one_core()))
    }

    /// Creates the workers of a source's helper tasks: one less than the number of processors.
    fn helpers(
        &self,
        router: &Router,
        sink: NodeId,
        codec: &dyn MakeCodec,
    ) -> Result<Vec<Worker>, flow::Diagnostic> {
        let node = self.flow.graph.node(self.owner);
        let at = self.flow.spec.connectors[node.index].component.name.at;
        let count = self.control.processors().count().saturating_sub(1);
        let mut helpers = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(encoding) = self.encoding(sink)? else { break };
            let decoder =
                codec.decoder().map_err(|error| self.flow.error(at, error.to_string()))?;
            helpers.push(Worker {
                router: router.another(encoding, Pool::new(POOLED)),
                codec: Some(decoder),
                sizer: BatchSizer::default(),
            });
        }
        Ok(helpers)
    }
}
