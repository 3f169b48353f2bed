//! Assignment of the nodes of a flow to tasks.

use std::collections::HashMap;

use crate::{
    engine::parts::Parts,
    flow::{ERR, Edge, Flow, Node, NodeId, Role, WhenFull},
};

/// The tasks that run each node. A task is identified by the node that owns it.
pub(super) struct Runners(HashMap<NodeId, Vec<NodeId>>);

/// Assigns each node to the tasks that run it.
///
/// Every source and every sink is a task. If one task feeds a pipeline, that task runs the pipeline. If several tasks
/// feed a pipeline, each of them runs it if its operators keep no state between batches; otherwise the pipeline is a
/// task. A pipeline without any input is not run.
///
/// The tasks that feed a sink whose queue gives batches up also feed what is linked to the port `err` of the sink. They
/// do so while they send, and cannot run a pipeline then, so such a pipeline is a task.
pub(super) fn runners(flow: &Flow, parts: &dyn Parts) -> Runners {
    let graph = &flow.graph;
    let mut runners = Runners(HashMap::new());
    // Nodes are in topological order, so the runners of all nodes before a node are known.
    for (id, node) in graph.nodes() {
        let feeding = node.inputs.iter().flat_map(|edge| runners.of(graph.edge(*edge).from));
        let mut feeding: Vec<NodeId> = feeding.copied().collect();
        feeding.sort_unstable();
        feeding.dedup();
        let takes_overflow = node.inputs.iter().any(|edge| {
            let Edge { from, from_port, .. } = graph.edge(*edge);
            from_port == ERR && when_full(flow, graph.node(*from)) == WhenFull::DeadLetter
        });
        let is_shared = || {
            let operators = &flow.spec.pipelines[node.index].operators;
            operators.iter().all(|operator| parts.is_stateless(operator))
        };
        let runs = match node.role {
            Role::Pipeline if !takes_overflow && (feeding.len() < 2 || is_shared()) => feeding,
            Role::Source | Role::Sink | Role::Pipeline => vec![id],
        };
        runners.0.insert(id, runs);
    }
    runners
}

/// Returns what the queue of a node does if it is full. Only queues of sinks give batches up.
pub(super) fn when_full(flow: &Flow, node: &Node) -> WhenFull {
    match node.role {
        Role::Sink => flow.spec.connectors[node.index].when_memory_is_full(),
        Role::Source | Role::Pipeline => WhenFull::Block,
    }
}

impl Runners {
    pub(super) fn of(&self, id: NodeId) -> &[NodeId] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the pipelines that the task of `owner` runs, in the order in which events pass them.
    pub(super) fn staged(&self, flow: &Flow, owner: NodeId) -> Vec<NodeId> {
        let pipelines = flow.graph.nodes().filter(|(_, node)| node.role == Role::Pipeline);
        pipelines.map(|(id, _)| id).filter(|id| self.run_by(*id, owner)).collect()
    }

    pub(super) fn run_by(&self, id: NodeId, owner: NodeId) -> bool {
        self.of(id).contains(&owner)
    }
}
