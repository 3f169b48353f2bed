//! Plans of the next version of a running flow: the tasks that join, and the links that running tasks get.

use std::sync::Arc;

use super::{
    Plan, Scope, Tasks, assembly, join,
    placement::{Runners, runners, when_full},
    topology::{Key, TaskLinks, Topology, key},
    wiring::Targets,
};
use crate::engine::{
    parts::Parts,
    route::{
        exchange::Wiring,
        router::Egress,
        stage::{Origin, Stage},
        step::Step,
    },
    target::{NamedTargets, Ports, Target},
    tracking::stats::FlowCounters,
};
use crate::flow::{self, ERR, Flow, Graph, Node, NodeId, OUT, Role, owner_of};

/// Links that a running task gets.
pub(crate) type Exchange = (Arc<Egress>, Wiring);

/// The version of a flow that runs.
pub(super) struct Rewiring<'p> {
    before: &'p Flow,
    runners: Runners,
}

/// The sources of a sink in the next version of a flow.
pub(crate) struct Feeding {
    /// Name of the connector of the sink.
    pub(crate) sink: String,
    /// Number of the node and name of the connector of each source whose events may reach the sink.
    pub(crate) sources: Vec<(u32, String)>,
    /// Names of the connectors whose sources are not pulled while the sink is down.
    pub(crate) stopped: Vec<String>,
}

/// Plans the next version of the running flow `before`. Returns the tasks that join, and the links of running tasks that
/// change. Call this only if there is no [`obstacle`].
///
/// # Errors
/// Returns the reason why a component cannot be created, with its location in the flow file.
pub(crate) fn rewire(
    next: &Flow,
    before: &Flow,
    scope: Scope<'_>,
    topology: &Topology,
) -> Result<(Tasks, Vec<Exchange>), flow::Error> {
    let rewiring = Rewiring { before, runners: runners(before, scope.parts) };
    join(next, scope, Topology::continued(topology, &next.graph), Some(&rewiring))
}

/// Returns the sources of all sinks of a flow. `topology` has the numbers of its nodes.
pub(crate) fn feeding(flow: &Flow, topology: &Topology) -> Vec<Feeding> {
    let sinks = flow.graph.nodes().filter(|(_, node)| node.role == Role::Sink);
    let of_sink = |(id, sink): (NodeId, &Node)| {
        let ids = flow.graph.sources_of(id).into_iter();
        let nodes: Vec<_> = ids.map(|id| flow.graph.node(id)).collect();
        let is_stopped = |it: &&&Node| when_full(flow, sink).blocks() && it.index != sink.index;
        Feeding {
            sink: sink.name.clone(),
            sources: nodes.iter().map(|it| (topology.number(it), it.name.clone())).collect(),
            stopped: nodes.iter().filter(is_stopped).map(|it| it.name.clone()).collect(),
        }
    };
    sinks.map(of_sink).collect()
}

/// Returns the names of the connectors whose events may reach each pipeline.
pub(crate) fn pipelines(flow: &Flow) -> Vec<(String, Vec<String>)> {
    let pipelines = flow.graph.nodes().filter(|(_, node)| node.role == Role::Pipeline);
    pipelines.map(|(id, node)| (node.name.clone(), super::sources(flow, id))).collect()
}

/// The links of one task.
struct Linked<'t> {
    targets: Targets<'t>,
    ports: Ports,
    /// The ports of the pipelines that the task runs, and those of their operators.
    stages: Vec<(Ports, NamedTargets)>,
}

impl<'t> Linked<'t> {
    /// Returns the links of the task of `owner`, which runs the pipelines `staged`. The first queue is that of `encoded`.
    fn of(flow: &'t Flow, staged: &'t [NodeId], owner: NodeId, encoded: Option<NodeId>) -> Self {
        let mut targets = Targets::new(flow, staged, encoded.into_iter().collect());
        let ports = targets.own_ports(owner);
        let stage = |id: &NodeId| {
            let node = flow.graph.node(*id);
            let outputs = node.outputs.iter().map(|it| it.port.as_str());
            let own = outputs.filter(|port| ![OUT, ERR].contains(port));
            let own = own.map(|port| (port.to_owned(), targets.port(node, port))).collect();
            (targets.ports(node), own)
        };
        let stages = staged.iter().map(stage).collect();
        targets.add_overflow();
        Self { targets, ports, stages }
    }

    fn keys(&self, nodes: &[NodeId]) -> Vec<Key> {
        nodes.iter().map(|id| key(self.targets.flow.graph.node(*id))).collect()
    }

    fn queued(&self) -> Vec<Key> {
        self.keys(&self.targets.queued)
    }

    /// Returns whether both versions of a task have the same links.
    fn is_same_as(&self, other: &Self) -> bool {
        let overflow = |it: &Self| {
            let of_queue = |id| it.targets.overflow.get(id).cloned();
            it.targets.queued.iter().map(of_queue).collect::<Vec<_>>()
        };
        self.keys(self.targets.staged) == other.keys(other.targets.staged)
            && self.queued() == other.queued()
            && self.targets.linked == other.targets.linked
            && overflow(self) == overflow(other)
            && (&self.ports, &self.stages) == (&other.ports, &other.stages)
    }
}

/// Returns the pipeline called `name` in a flow.
fn pipeline<'f>(flow: &'f Flow, name: &str) -> Option<&'f flow::Pipeline> {
    flow.spec.pipelines.iter().find(|it| it.name.value == name)
}

/// Returns an entry for each operator of the pipeline `name` in `next`: the position of the same operator in the version
/// `before`, or `None` if the operator is new.
fn operators(next: &Flow, before: &Flow, name: &str) -> Vec<Option<usize>> {
    let of = |flow| pipeline(flow, name).map_or(&[][..], |it| &it.operators);
    let mut first = 0;
    let origin = |operator: &flow::Component| {
        let is_same = |it: &flow::Component| {
            it.name.value == operator.name.value && it.config.value() == operator.config.value()
        };
        let at = first + of(before)[first..].iter().position(is_same)?;
        first = at + 1;
        Some(at)
    };
    of(next).iter().map(origin).collect()
}

/// Creates the operators of `next` that are new, and drops them, to find errors of their constructors.
///
/// # Errors
/// Returns the reason why an operator cannot be created, with its location in the flow file.
pub(crate) fn rehearse(
    next: &Flow,
    before: &Flow,
    trial: &dyn Parts,
) -> Result<(), flow::Diagnostic> {
    for pipeline in &next.spec.pipelines {
        let name = &pipeline.name.value;
        let is_linked = next.graph.find(Role::Pipeline, name).is_some();
        let origins = operators(next, before, name).into_iter();
        let new = pipeline.operators.iter().zip(origins).filter(|(_, origin)| origin.is_none());
        for (operator, _) in new.filter(|_| is_linked) {
            trial.operator(name, operator)?;
        }
    }
    Ok(())
}

/// Returns whether the operators of a pipeline are the same in both versions.
fn has_same_operators(next: &Flow, before: &Flow, name: &str) -> bool {
    let count = pipeline(before, name).map_or(0, |it| it.operators.len());
    operators(next, before, name).into_iter().eq((0..count).map(Some))
}

impl Plan<'_> {
    /// Creates the links that the running task gets, or returns `None` if its links and operators stay the same.
    pub(super) fn exchange(
        &self,
        rewiring: &Rewiring<'_>,
        counters: &FlowCounters,
    ) -> Result<Option<Exchange>, flow::Diagnostic> {
        let graph = &self.flow.graph;
        let own = graph.node(self.owner);
        let (staged, before) = (self.runners.staged(self.flow, self.owner), rewiring.before);
        let Some(links) = self.topology.tasks.get(&key(own)) else { return Ok(None) };
        let earlier = before.graph.find(own.role, &own.name);
        let Some((egress, earlier)) = links.egress.upgrade().zip(earlier) else { return Ok(None) };
        let encoded = |graph: &Graph| graph.find(Role::Sink, links.encodes_for.as_ref()?);
        let earlier_staged = rewiring.runners.staged(before, earlier);
        let was = Linked::of(before, &earlier_staged, earlier, encoded(&before.graph));
        let is = Linked::of(self.flow, &staged, self.owner, encoded(graph));
        let is_same = |id: &NodeId| has_same_operators(self.flow, before, &graph.node(*id).name);
        if is.is_same_as(&was) && staged.iter().all(is_same) {
            return Ok(None);
        }
        let Linked { targets, ports, stages: of_stages } = is;
        let mut stages = Vec::with_capacity(staged.len());
        for (id, (ports, own_ports)) in staged.iter().zip(of_stages) {
            let name = &graph.node(*id).name;
            let runs = rewiring.runs(earlier, name);
            let operators = self.operators(*id, before, runs, &own_ports, counters)?;
            let stats = self.add_pipeline(*id, counters);
            stages.push(Stage { name: name.as_str().into(), ports, stats, operators, own_ports });
        }
        let outlets = self.queues.outlets(&targets, self.topology.number(own));
        if outlets.len() < targets.queued.len() {
            let message = format!("a connector after `{}` has ended; reload again", own.name);
            return Err(self.flow.error(flow::Span::START, message));
        }
        Ok(Some((egress, Wiring { ports, stages, outlets })))
    }

    /// Returns the operators of a pipeline: those of the running one that stay, if the task `runs` it, and new ones.
    fn operators(
        &self,
        id: NodeId,
        before: &Flow,
        runs: bool,
        own_ports: &[(String, Vec<Target>)],
        counters: &FlowCounters,
    ) -> Result<Vec<Origin>, flow::Diagnostic> {
        let node = self.flow.graph.node(id);
        let spec = &self.flow.spec.pipelines[node.index];
        let mut operators = Vec::with_capacity(spec.operators.len());
        let mut ports: Vec<_> = own_ports.iter().map(|(port, _)| port.clone()).collect();
        let origins = self::operators(self.flow, before, &node.name).into_iter();
        let restarts = &self.restarts.0[node.index];
        for (((number, component), restarts), origin) in
            (1..).zip(&spec.operators).zip(restarts).zip(origins)
        {
            operators.push(match origin.filter(|_| runs) {
                Some(at) => Origin::Running(at),
                None => {
                    let mut unlinked = |_: &Node, _: &str| Vec::new();
                    let operator = (number, component);
                    let (step, _) =
                        assembly::step(self.parts, node, operator, restarts, &mut unlinked)?;
                    ports.extend(Step::ports(&step).map(str::to_owned));
                    Origin::New(Box::new(step))
                }
            });
        }
        if operators.iter().any(|it| matches!(it, Origin::New(_))) {
            ports.sort_unstable();
            ports.dedup();
            counters.set_ports(&node.name, Role::Pipeline, ports);
        }
        Ok(operators)
    }
}

impl Rewiring<'_> {
    /// Returns whether the task of `owner` runs the pipeline called `name`.
    fn runs(&self, owner: NodeId, name: &str) -> bool {
        let found = self.before.graph.find(Role::Pipeline, name);
        found.is_some_and(|id| self.runners.run_by(id, owner))
    }
}

/// Returns the reason why the running flow `before` cannot become `next` without being replaced, if there is one.
pub(crate) fn obstacle(
    next: &Flow,
    before: &Flow,
    parts: &dyn Parts,
    topology: &Topology,
) -> Option<String> {
    let versions = Versions {
        next: (next, runners(next, parts)),
        before: (before, runners(before, parts)),
        topology,
    };
    versions.connectors().or_else(|| versions.pipelines()).or_else(|| versions.tasks())
}

/// Two versions of a flow, with the tasks that run their pipelines.
struct Versions<'v> {
    next: (&'v Flow, Runners),
    before: (&'v Flow, Runners),
    topology: &'v Topology,
}

impl Versions<'_> {
    /// Returns an obstacle because of connectors that join or leave.
    fn connectors(&self) -> Option<String> {
        let ((next, _), (before, _)) = (&self.next, &self.before);
        let connectors = next.spec.connectors.iter().chain(&before.spec.connectors);
        let (mut joins, mut leaves) = (false, false);
        for connector in connectors {
            let name = &connector.name.value;
            let has = |flow: &Flow, role| flow.graph.find(role, name).is_some();
            let roles = |flow: &Flow| [has(flow, Role::Source), has(flow, Role::Sink)];
            let (was, is) = (roles(before), roles(next));
            if was == is {
                continue;
            }
            let is_queue = owner_of(name) != name;
            joins |= is_queue && is == [true; 2];
            leaves |= is_queue && was == [true; 2];
            let change = |was: bool| if was { "removed" } else { "added" };
            if was[0] != is[0] && !is_queue {
                return Some(format!("the source `{name}` was {}", change(was[0])));
            }
            if (was[0] || is[0]) && !is_queue {
                return Some(format!("the sink of the source `{name}` was {}", change(was[1])));
            }
        }
        let both = "a sink with a queue on disk was added, and another one was removed";
        (joins && leaves).then(|| both.to_owned())
    }

    /// Returns an obstacle because of pipelines that other tasks would run.
    fn pipelines(&self) -> Option<String> {
        let owners = |(flow, runners): &(&Flow, Runners), name: &str| -> Vec<Key> {
            let found = flow.graph.find(Role::Pipeline, name);
            let owners = found.map_or(&[][..], |id| runners.of(id));
            owners.iter().map(|id| key(flow.graph.node(*id))).collect()
        };
        let (next, before) = (self.next.0, self.before.0);
        for pipeline in next.spec.pipelines.iter().chain(&before.spec.pipelines) {
            let name = &pipeline.name.value;
            let (was, is) = (owners(&self.before, name), owners(&self.next, name));
            let has_own_task =
                |owners: &[Key]| owners.iter().any(|(role, _)| *role == Role::Pipeline);
            if has_own_task(&was) != has_own_task(&is) {
                return Some(format!("the pipeline `{name}` has a task of its own"));
            }
            let stays = |(role, name): &&Key| {
                [next, before].iter().all(|flow| flow.graph.find(*role, name).is_some())
            };
            if !was.is_empty()
                && !is.is_empty()
                && !was.iter().filter(stays).eq(is.iter().filter(stays))
            {
                return Some(format!("other tasks would run the pipeline `{name}`"));
            }
        }
        None
    }

    /// Returns an obstacle because of the links of tasks that continue.
    fn tasks(&self) -> Option<String> {
        let ((next, runners), (before, earlier_runners)) = (&self.next, &self.before);
        for (id, node) in next.graph.nodes() {
            let earlier = before.graph.find(node.role, &node.name);
            let Some(links) = self.topology.tasks.get(&key(node)) else { continue };
            let Some(earlier) = earlier else { continue };
            let (staged, earlier_staged) =
                (runners.staged(next, id), earlier_runners.staged(before, earlier));
            let is = Linked::of(next, &staged, id, None);
            let was = Linked::of(before, &earlier_staged, earlier, None);
            let is_same =
                |id: &NodeId| has_same_operators(next, before, &next.graph.node(*id).name);
            let found = if is.is_same_as(&was) && staged.iter().all(is_same) {
                None
            } else {
                self.links(&node.name, links, &is, &was)
            };
            // The tasks of sinks and pipelines relieve the sources before them, which they know by their names.
            let relieves =
                is.targets.queued.iter().any(|id| !when_full(next, next.graph.node(*id)).blocks());
            let has_other_sources = || super::sources(next, id) != super::sources(before, earlier);
            let relieved = (node.role != Role::Source && relieves && has_other_sources())
                .then(|| format!("`{}` relieves other sources", node.name));
            if let Some(found) = found.or(relieved) {
                return Some(found);
            }
        }
        None
    }

    /// Returns an obstacle because of the links of the task of `name`, which change.
    fn links(
        &self,
        name: &str,
        links: &TaskLinks,
        is: &Linked<'_>,
        was: &Linked<'_>,
    ) -> Option<String> {
        let (is_queued, was_queued) = (is.queued(), was.queued());
        if links.leads {
            return Some(format!("several tasks process the events of `{name}`"));
        }
        if let Some(sink) = &links.encodes_for
            && !is_queued.iter().any(|(_, queued)| queued == sink)
        {
            return Some(format!("`{name}` encodes for `{sink}`"));
        }
        let flow = self.next.0;
        let mut added = is.targets.queued.iter().map(|id| flow.graph.node(*id));
        added.find_map(|node| {
            let name = &node.name;
            if was_queued.contains(&key(node)) {
                return None;
            }
            if !when_full(flow, node).blocks() {
                return Some(format!("`queue.when_full` of `{name}` requires it"));
            }
            let has_ended = self.topology.sending(node).is_some_and(|it| it.upgrade().is_none());
            has_ended.then(|| format!("the connector `{name}` has ended"))
        })
    }
}
