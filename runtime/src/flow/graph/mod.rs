//! The graph that a flow's links describe.

mod build;
mod cycle;

use std::fmt;

pub(crate) use build::build;

use super::source::Span;

/// What a [`Node`] does, in the order in which events come to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The side of a connector that events come from.
    Source,
    /// A pipeline.
    Pipeline,
    /// The side of a connector that events go to.
    Sink,
}

impl Role {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Pipeline => "pipeline",
            Self::Sink => "sink",
        }
    }
}

/// Names a [`Node`] of one [`Graph`]. Ids are dense, and ordered so that events only ever go from
/// lower ones to higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

impl NodeId {
    /// The id as an index, from 0 to the number of nodes.
    pub fn index(self) -> usize {
        self.0
    }

    /// Returns the index as the number by which queues and their senders name a node.
    pub(crate) fn number(self) -> u32 {
        u32::try_from(self.index()).unwrap_or(u32::MAX)
    }
}

/// Names an [`Edge`] of one [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(usize);

impl EdgeId {
    /// The id as an index, from 0 to the number of edges.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Something that events run through: one side of a connector, or a pipeline.
///
/// A connector that is linked both ways has two nodes, so `bench -> main -> bench` is no cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it does.
    pub role: Role,
    /// The name of the connector or pipeline.
    pub name: String,
    /// Its position in [`Spec::connectors`](super::Spec::connectors), or for a pipeline in
    /// [`Spec::pipelines`](super::Spec::pipelines).
    pub index: usize,
    /// Edges that lead here, in the order of their links. A source has none.
    pub inputs: Vec<EdgeId>,
    /// The ports that are linked, in the order of their first links. A sink has `err` at most.
    pub outputs: Vec<Output>,
}

impl Node {
    /// The edges that leave by a port; none if it is not linked.
    pub fn output(&self, port: &str) -> &[EdgeId] {
        self.outputs.iter().find(|output| output.port == port).map_or(&[], |output| &output.edges)
    }
}

/// A port of a [`Node`] that events leave by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its name.
    pub port: String,
    /// Where it leads, in the order of the links; never empty. Every edge gets every event.
    pub edges: Vec<EdgeId>,
}

/// A way for events from one node to another.
///
/// A link is one edge, but for the link of a connector's `err`: what fails on either side of the
/// connector leaves there, so there is an edge from its source and one from its sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The node it comes from.
    pub from: NodeId,
    /// The port it leaves by.
    pub from_port: String,
    /// Where the link names that end.
    pub from_at: Span,
    /// The node it leads to.
    pub to: NodeId,
    /// The port it enters by.
    pub to_port: String,
    /// Where the link names that end.
    pub to_at: Span,
}

/// A flow's nodes and edges, free of cycles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

impl Graph {
    /// All nodes with their ids, in topological order: every edge leads to a later node.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index), node))
    }

    /// All edges with their ids, in the order of their links.
    pub fn edges(&self) -> impl DoubleEndedIterator<Item = (EdgeId, &Edge)> + ExactSizeIterator {
        self.edges.iter().enumerate().map(|(index, edge)| (EdgeId(index), edge))
    }

    /// The sources whose events may come to a node, by whatever ports.
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

    /// A node of this graph.
    ///
    /// # Panics
    /// May panic if the id is another graph's.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// An edge of this graph.
    ///
    /// # Panics
    /// May panic if the id is another graph's.
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.0]
    }

    /// The node of a connector's side or of a pipeline, if the flow's links use it.
    pub fn find(&self, role: Role, name: &str) -> Option<NodeId> {
        self.nodes().find(|(_, node)| node.role == role && node.name == name).map(|(id, _)| id)
    }
}

/// One node a line, in topological order, with the ways out of it.
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
