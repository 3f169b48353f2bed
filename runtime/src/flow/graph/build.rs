//! Construction of the graph from the links, with all checks that are possible without plugins.

use std::collections::HashMap;

use super::{
    super::{
        diagnostic::{Diagnostic, Report},
        link::{ERR, End, IN, Link, OUT},
        source::Span,
        spec::{Draft, Spec},
        suggest::{did_you_mean, list, quote},
    },
    Edge, EdgeId, Graph, Node, NodeId, Output, Role, cycle,
};

/// Meaning of a name in a link: an index in the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Connector(usize),
    Pipeline(usize),
}

impl Target {
    fn kind(self) -> &'static str {
        match self {
            Self::Connector(_) => "connector",
            Self::Pipeline(_) => "pipeline",
        }
    }
}

/// Builds the graph of a flow. The graph is empty if there is any error.
pub(crate) fn build(draft: &Draft, report: &mut Report) -> Graph {
    let spec = &draft.spec;
    if !draft.has_links {
        report.push(
            report
                .error(draft.links_at, "the flow has no links, so no event would ever go anywhere")
                .help("add `links:` with at least one entry such as `- input -> output`"),
        );
        return Graph::default();
    }
    let names = targets(spec);
    let resolved: Vec<_> =
        spec.links.iter().filter_map(|link| resolve(link, &names, draft, report)).collect();
    report_duplicates(&resolved, report);

    let mut builder = Builder { draft, spec, nodes: Vec::new(), ids: HashMap::new() };
    let edges = builder.edges(&resolved, report);
    let nodes = builder.nodes;
    for cycle in cycle::find(nodes.len(), &edges) {
        cycle::report(&cycle, &nodes, &edges, report);
    }
    if report.has_errors() {
        return Graph::default();
    }
    in_order(nodes, edges)
}

fn targets(spec: &Spec) -> HashMap<&str, Target> {
    let connectors = spec.connectors.iter().enumerate();
    let pipelines = spec.pipelines.iter().enumerate();
    connectors
        .map(|(index, connector)| (connector.name.value.as_str(), Target::Connector(index)))
        .chain(
            pipelines
                .map(|(index, pipeline)| (pipeline.name.value.as_str(), Target::Pipeline(index))),
        )
        .collect()
}

/// A link whose names and ports exist.
struct Resolved<'l> {
    link: &'l Link,
    from: Target,
    to: Target,
}

fn resolve<'l>(
    link: &'l Link,
    names: &HashMap<&str, Target>,
    draft: &Draft,
    report: &mut Report,
) -> Option<Resolved<'l>> {
    let mut target = |end: &End| {
        let found = names.get(end.name.as_str()).copied();
        if found.is_none() && !draft.faulty.contains(&end.name) && !draft.may_have_more {
            report.push_with(|report| dangling(end, names, draft, report));
        }
        found
    };
    let (from, to) = (target(&link.from), target(&link.to));
    // Only the operators of a pipeline determine its other output ports, so these are checked together with the
    // operators.
    let from_fits = match from {
        Some(Target::Connector(_)) => [OUT, ERR].contains(&link.from.port.as_str()),
        Some(Target::Pipeline(_)) => link.from.port != IN,
        None => true,
    };
    let to_fits = to.is_none() || link.to.port == IN;
    if let (Some(from), false) = (from, from_fits) {
        report_port(&link.from, from, "output", report);
    }
    if let (Some(to), false) = (to, to_fits) {
        report_port(&link.to, to, "input", report);
    }
    (from_fits && to_fits).then_some(())?;
    Some(Resolved { link, from: from?, to: to? })
}

fn dangling(
    end: &End,
    names: &HashMap<&str, Target>,
    draft: &Draft,
    report: &Report,
) -> Diagnostic {
    let faulty = draft.faulty.iter().map(String::as_str);
    let mut known: Vec<_> = names.keys().copied().chain(faulty).collect();
    known.sort_unstable();
    known.dedup();
    let all = (!known.is_empty()).then(|| format!("this flow has {}", list(&known)));
    let message = format!("no connector or pipeline is named {}", quote(&end.name));
    report
        .error(end.at, message)
        .maybe_help(did_you_mean(&end.name, known.iter().copied()))
        .maybe_help(all)
}

fn report_port(end: &End, target: Target, direction: &str, report: &mut Report) {
    let (kind, name, port) = (target.kind(), quote(&end.name), quote(&end.port));
    let ports = match (direction, target) {
        ("input", _) => format!("events enter a {kind} by `{IN}`"),
        (_, Target::Connector(_)) => format!("events leave a {kind} by `{OUT}` or `{ERR}`"),
        (_, Target::Pipeline(_)) => {
            format!(
                "events leave a {kind} by `{OUT}`, `{ERR}` or a port that an operator of it has"
            )
        }
    };
    let message = format!("{kind} {name} has no {direction} port {port}");
    report.push(report.error(end.at, message).help(ports));
}

fn report_duplicates(links: &[Resolved<'_>], report: &mut Report) {
    let mut seen: HashMap<[&str; 4], Span> = HashMap::new();
    for Resolved { link, .. } in links {
        let Link { from, to } = link;
        let ends = [&from.name, &from.port, &to.name, &to.port].map(String::as_str);
        match seen.get(&ends) {
            Some(first) => report.push(
                report
                    .error(link.at(), format!("the link `{link}` is repeated"))
                    .note(*first, "it appears here first")
                    .help("remove one; events would arrive twice"),
            ),
            None => _ = seen.insert(ends, link.at()),
        }
    }
}

struct Builder<'s> {
    draft: &'s Draft,
    spec: &'s Spec,
    nodes: Vec<Node>,
    ids: HashMap<(Role, usize), usize>,
}

impl Builder<'_> {
    fn edges(&mut self, links: &[Resolved<'_>], report: &mut Report) -> Vec<Edge> {
        // If something is linked to a side of a connector, the side is a node. Events that fail on either side leave
        // through `err`. A link from `err` may be in the file before the links of the sides, so all nodes are created
        // first.
        for Resolved { link, from, to } in links {
            match *from {
                Target::Connector(index) if link.from.port == OUT => {
                    self.node(Role::Source, index);
                }
                Target::Connector(_) => {}
                Target::Pipeline(index) => _ = self.node(Role::Pipeline, index),
            }
            self.target_node(*to);
        }
        let mut edges = Vec::new();
        for Resolved { link, from, to } in links {
            let to = self.target_node(*to);
            let sides = match *from {
                Target::Connector(index) if link.from.port == ERR => [Role::Source, Role::Sink]
                    .iter()
                    .filter_map(|role| self.ids.get(&(*role, index)).copied())
                    .collect(),
                Target::Connector(index) => vec![self.node(Role::Source, index)],
                Target::Pipeline(index) => vec![self.node(Role::Pipeline, index)],
            };
            if sides.is_empty() && !self.may_be_linked(links) {
                let name = quote(&link.from.name);
                report.push(
                    report
                        .error(link.from.at, format!("nothing can fail in connector {name}"))
                        .help(format!("link something to {name}, or its `{OUT}` to something")),
                );
            }
            for from in sides {
                let id = EdgeId(edges.len());
                self.nodes[to].inputs.push(id);
                let outputs = &mut self.nodes[from].outputs;
                match outputs.iter_mut().find(|output| output.port == link.from.port) {
                    Some(output) => output.edges.push(id),
                    None => {
                        outputs.push(Output { port: link.from.port.clone(), edges: vec![id] });
                    }
                }
                edges.push(Edge {
                    from: NodeId(from),
                    from_port: link.from.port.clone(),
                    from_at: link.from.at,
                    to: NodeId(to),
                    to_port: link.to.port.clone(),
                    to_at: link.to.at,
                });
            }
        }
        edges
    }

    /// Returns whether connectors may have sides that are not known, because some link could not be understood. A
    /// misspelt name may be that of any connector.
    fn may_be_linked(&self, links: &[Resolved<'_>]) -> bool {
        self.draft.has_faulty_links || links.len() < self.spec.links.len()
    }

    fn target_node(&mut self, target: Target) -> usize {
        match target {
            Target::Connector(index) => self.node(Role::Sink, index),
            Target::Pipeline(index) => self.node(Role::Pipeline, index),
        }
    }

    fn node(&mut self, role: Role, index: usize) -> usize {
        *self.ids.entry((role, index)).or_insert_with(|| {
            let name = match role {
                Role::Pipeline => &self.spec.pipelines[index].name,
                Role::Source | Role::Sink => &self.spec.connectors[index].name,
            };
            let name = name.value.clone();
            self.nodes.push(Node { role, name, index, inputs: Vec::new(), outputs: Vec::new() });
            self.nodes.len() - 1
        })
    }
}

/// Renumbers the nodes so that every edge leads to a node with a higher number. Requires that there is no cycle.
pub(super) fn in_order(nodes: Vec<Node>, mut edges: Vec<Edge>) -> Graph {
    let order = cycle::order(nodes.len(), &edges);
    let mut position = vec![0; nodes.len()];
    for (new, old) in order.iter().enumerate() {
        position[*old] = new;
    }
    for edge in &mut edges {
        edge.from = NodeId(position[edge.from.0]);
        edge.to = NodeId(position[edge.to.0]);
    }
    let mut nodes: Vec<_> = nodes.into_iter().enumerate().collect();
    nodes.sort_by_key(|(old, _)| position[*old]);
    Graph { nodes: nodes.into_iter().map(|(_, node)| node).collect(), edges }
}
