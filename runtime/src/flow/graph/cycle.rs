//! Topological order and cycles of a graph.

use std::collections::{BTreeSet, HashMap};

use super::{
    super::{
        diagnostic::Report,
        link::{End, Link, OUT},
    },
    Edge, Node,
};

/// Returns the nodes that neither belong to a cycle nor can be reached from one, in an order in which edges lead from
/// earlier to later nodes (Kahn's algorithm).
///
/// If the edges do not determine the order of two nodes, the node with the lower number comes first.
pub(super) fn order(nodes: usize, edges: &[Edge]) -> Vec<usize> {
    let mut missing = vec![0_usize; nodes];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for edge in edges {
        missing[edge.to.0] += 1;
        next[edge.from.0].push(edge.to.0);
    }
    let mut ready: BTreeSet<usize> = (0..nodes).filter(|node| missing[*node] == 0).collect();
    let mut order = Vec::with_capacity(nodes);
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for to in &next[node] {
            missing[*to] -= 1;
            if missing[*to] == 0 {
                ready.insert(*to);
            }
        }
    }
    order
}

/// Returns cycles as lists of edges. Each list begins with the edge that is first in the file.
///
/// The returned cycles have no nodes in common, so the graph may have more cycles than are returned.
pub(super) fn find(nodes: usize, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut open = vec![true; nodes];
    for node in order(nodes, edges) {
        open[node] = false;
    }
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (index, edge) in edges.iter().enumerate() {
        into[edge.to.0].push(index);
    }
    let mut cycles = Vec::new();
    // Every open node has an edge from another open node, so a walk backwards from any node ends in a cycle. Later
    // walks may also end at a node of a cycle that was already found and removed.
    for start in 0..nodes {
        let mut path: Vec<usize> = Vec::new();
        let mut seen = HashMap::new();
        let mut node = start;
        while open[node] {
            if let Some(since) = seen.insert(node, path.len()) {
                let mut cycle = path.split_off(since);
                cycle.reverse();
                let first = (0..cycle.len()).min_by_key(|position| cycle[*position]).unwrap_or(0);
                cycle.rotate_left(first);
                for edge in &cycle {
                    open[edges[*edge].to.0] = false;
                }
                cycles.push(cycle);
                break;
            }
            let Some(edge) = into[node].iter().find(|edge| open[edges[**edge].from.0]) else {
                break;
            };
            path.push(*edge);
            node = edges[*edge].from.0;
        }
    }
    cycles
}

/// Reports a cycle, which is given by its edges.
pub(super) fn report(cycle: &[usize], nodes: &[Node], edges: &[Edge], report: &mut Report) {
    let links: Vec<_> = cycle.iter().map(|edge| link(&edges[*edge], nodes)).collect();
    let Some(first) = links.first() else { return };
    let path: String = links.iter().map(|link| link.from.written(OUT) + " -> ").collect();
    let message = format!("the links form a cycle: {path}{}", first.from.name);
    let mut diagnostic = report.error(first.at(), message);
    for link in &links {
        diagnostic = diagnostic.note(link.at(), format!("`{link}`"));
    }
    report.push(diagnostic.help(
        "remove one of these links: events that circulate fill every queue until the flow stops",
    ));
}

fn link(edge: &Edge, nodes: &[Node]) -> Link {
    let end = |node: usize, port: &str, at| End {
        name: nodes[node].name.clone(),
        port: port.to_owned(),
        at,
    };
    Link {
        from: end(edge.from.0, &edge.from_port, edge.from_at),
        to: end(edge.to.0, &edge.to_port, edge.to_at),
    }
}
