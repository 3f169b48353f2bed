//! Insertion of queues on disk into a graph.

use super::{
    super::link::{ERR, OUT},
    Edge, EdgeId, Graph, Node, NodeId, Output, Role,
    build::in_order,
};

/// A sink that gets its events from a queue on disk.
pub(crate) struct Queued {
    /// Position of the sink's connector in the spec.
    pub(crate) sink: usize,
    /// Position of the queue's connector in the spec.
    pub(crate) queue: usize,
    /// Name of the queue's connector.
    pub(crate) name: String,
}

impl Graph {
    /// Returns a graph in which each of these sinks gets its events from its queue, and the queue gets what was linked
    /// to the sink: `X -> S` becomes `X -> Q` and `Q -> S`. What is linked to the port `err` of the sink also gets the
    /// events that fail in the queue. Sinks to which nothing is linked stay unchanged.
    pub(crate) fn with_queues(&self, sinks: &[Queued]) -> Self {
        let Self { mut nodes, mut edges } = self.clone();
        for Queued { sink, queue, name } in sinks {
            let is_sink = |it: &Node| it.role == Role::Sink && it.index == *sink;
            let Some(to) = nodes.iter().position(is_sink) else { continue };
            let node = |role, inputs| Node {
                role,
                name: name.clone(),
                index: *queue,
                inputs,
                outputs: Vec::new(),
            };
            let (input, output) = (NodeId(nodes.len()), NodeId(nodes.len() + 1));
            let inputs = std::mem::take(&mut nodes[to].inputs);
            inputs.iter().for_each(|edge| edges[edge.0].to = input);
            let template = inputs.first().map(|edge| edges[edge.0].clone());
            let failed: Vec<Edge> =
                nodes[to].output(ERR).iter().map(|edge| edges[edge.0].clone()).collect();
            nodes.push(node(Role::Sink, inputs));
            nodes.push(node(Role::Source, Vec::new()));
            let delivery = template.map(|edge| Edge {
                from: output,
                from_port: OUT.to_owned(),
                to: NodeId(to),
                ..edge
            });
            let failed = |from| failed.iter().map(move |edge| Edge { from, ..edge.clone() });
            for edge in delivery.into_iter().chain(failed(input)).chain(failed(output)) {
                connect(&mut nodes, &mut edges, edge);
            }
        }
        in_order(nodes, edges)
    }
}

/// Adds an edge to its nodes.
fn connect(nodes: &mut [Node], edges: &mut Vec<Edge>, edge: Edge) {
    let id = EdgeId(edges.len());
    nodes[edge.to.0].inputs.push(id);
    let outputs = &mut nodes[edge.from.0].outputs;
    match outputs.iter_mut().find(|output| output.port == edge.from_port) {
        Some(output) => output.edges.push(id),
        None => outputs.push(Output { port: edge.from_port.clone(), edges: vec![id] }),
    }
    edges.push(edge);
}
