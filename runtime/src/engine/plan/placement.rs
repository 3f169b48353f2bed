//! Which task runs what.

use std::collections::HashMap;

use crate::{
    engine::parts::Parts,
    flow::{Flow, NodeId, Role},
};

/// Which tasks run a node, each named by the source, sink or pipeline that it is.
pub(super) struct Runners(HashMap<NodeId, Vec<NodeId>>);

/// Sources and sinks run themselves. A pipeline is run by the one task that feeds it. Where there
/// are several, each of them runs it, if its operators keep nothing between batches; otherwise it
/// is a task of its own. A pipeline that nothing feeds is not run.
pub(super) fn runners(flow: &Flow, parts: &dyn Parts) -> Runners {
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
    pub(super) fn of(&self, id: NodeId) -> &[NodeId] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn run_by(&self, id: NodeId, owner: NodeId) -> bool {
        self.of(id).contains(&owner)
    }
}
