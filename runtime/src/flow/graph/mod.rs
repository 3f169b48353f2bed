//! The graph that the links of a flow describe.

mod build;
mod cycle;
mod queue;

use std::fmt;

pub(crate) use build::build;
pub(crate) use queue::Queued;

use super::source::Span;

/// Role of a [`Node`], in the order in which events pass the roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The side of a connector that produces events.
    Source,
    /// A pipeline.
    Pipeline,
    /// The side of a connector that consumes events.
    Sink,
}

impl Role {
    /// Returns the name of the role in messages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Pipeline => "pipeline",
            Self::Sink => "sink",
        }
    }
}

/// Identifier of a [`Node`] of one [`Graph`].
///
/// Identifiers are dense, and ordered so that edges lead only from lower to higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

impl NodeId {
    /// Returns the identifier as an index below the number of nodes.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Identifier of an [`Edge`] of one [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(usize);

impl EdgeId {
    /// Returns the identifier as an index below the number of edges.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A component that processes events: one side of a connector, or a pipeline.
///
/// A connector that is linked in both directions has two nodes. Therefore `bench -> main -> bench` is not a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Role of the node.
    pub role: Role,
    /// The name of the connector or pipeline.
    pub name: String,
    /// Position in [`Spec::connectors`](super::Spec::connectors), or for a pipeline in
    /// [`Spec::pipelines`](super::Spec::pipelines).
    pub index: usize,
    /// Edges that lead to this node, in the order of their links. A source has none.
    pub inputs: Vec<EdgeId>,
    /// Output ports that are linked, in the order of their first links. A sink has at most `err`.
    pub outputs: Vec<Output>,
}

impl Node {
    /// Returns the edges that leave by a port; empty if the port is not linked.
    pub fn output(&self, port: &str) -> &[EdgeId] {
        self.outputs.iter().find(|output| output.port == port).map_or(&[], |output| &output.edges)
    }
}

/// Output port of a [`Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Name of the port.
    pub port: String,
    /// Edges from the port in the order of the links; never empty. Every edge receives every event.
    pub edges: Vec<EdgeId>,
}

/// Connection between two nodes.
///
/// Each link is one edge, except a link from `err` of a connector. Events that fail on either side of the connector
/// leave through that port, so such a link is an edge from the source and an edge from the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Node that the edge starts from.
    pub from: NodeId,
    /// Output port that the edge starts from.
    pub from_port: String,
    /// Location of the start in the link.
    pub from_at: Span,
    /// Node that the edge leads to.
    pub to: NodeId,
    /// Input port that the edge leads to.
    pub to_port: String,
    /// Location of the end in the link.
    pub to_at: Span,
}

/// Nodes and edges of a flow, without cycles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Returns all nodes with their identifiers, in topological order: every edge leads to a later node.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index), node))
    }

    /// Returns all edges with their identifiers, in the order of their links.
    pub fn edges(&self) -> impl DoubleEndedIterator<Item = (EdgeId, &Edge)> + ExactSizeIterator {
        self.edges.iter().enumerate().map(|(index, edge)| (EdgeId(index), edge))
    }

    /// Returns the sources whose events can reach a node through any ports.
    pub fn sources_of(&self, id: NodeId) -> Vec<NodeId> {
        let (mut reached, mut sources) = (vec![false; self.nodes.len()], Vec::new());
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            if std::mem::replace(&mut reached[id.0], true) {
                continue;
            }
            let node = self.node(id);
            if node.role == Role::Source {
                sources.push(id);
            }
            left.extend(node.inputs.iter().map(|edge| self.edge(*edge).from));
        }
        sources
    }

    /// Returns a node of this graph.
    ///
    /// # Panics
    /// May panic if the identifier belongs to another graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Returns an edge of this graph.
    ///
    /// # Panics
    /// May panic if the identifier belongs to another graph.
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.0]
    }

    /// Returns the node of a side of a connector or of a pipeline; `None` if no link uses it.
    pub fn find(&self, role: Role, name: &str) -> Option<NodeId> {
        self.nodes().find(|(_, node)| node.role == role && node.name == name).map(|(id, _)| id)
    }
}

/// Displays a line for each node, in topological order, with the edges that leave the node.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            write!(f, "{} {}", node.role.as_str(), node.name)?;
            for output in &node.outputs {
                for edge in &output.edges {
                    let edge = self.edge(*edge);
                    let Node { role, name, .. } = self.node(edge.to);
                    let (role, from, to) = (role.as_str(), &output.port, &edge.to_port);
                    write!(f, ", {from} -> {role} {name}/{to}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
