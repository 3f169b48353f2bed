//! What is legal in a flow file, and surely not meant. What only follows from another warning is not said.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf, absolute},
};

use super::{
    Flow,
    diagnostic::Report,
    graph::{Graph, Node, Role},
    link::ERR,
    source::Span,
    spec::{Connector, Spec},
    suggest::quote,
};

/// The type of the connectors that write the file of their key `path`.
const FILE: &str = "file";

/// Reports what is doubtful in a flow with which nothing is wrong.
pub(super) fn warn(flow: &Flow, report: &mut Report) {
    unlinked(&flow.spec, &flow.graph, report);
    errors_without_way(&flow.spec, &flow.graph, report);
    one_file_of_two(flow, report);
}

/// What no event comes to, and what no event leaves.
fn unlinked(spec: &Spec, graph: &Graph, report: &mut Report) {
    let mut used = HashSet::new();
    let mut pipelines: HashMap<usize, &Node> = HashMap::new();
    for (_, node) in graph.nodes() {
        match node.role {
            Role::Pipeline => _ = pipelines.insert(node.index, node),
            Role::Source | Role::Sink => _ = used.insert(node.index),
        }
    }
    for (index, connector) in spec.connectors.iter().enumerate() {
        if !used.contains(&index) {
            let message = format!("connector {} is in no link", quote(&connector.name.value));
            report.push(report.warning(connector.name.at, message).help("link it, or remove it"));
        }
    }
    for (index, pipeline) in spec.pipelines.iter().enumerate() {
        let (name, at) = (quote(&pipeline.name.value), pipeline.name.at);
        let Some(node) = pipelines.get(&index) else {
            let message = format!("pipeline {name} is in no link");
            report.push(report.warning(at, message).help("link it, or remove it"));
            continue;
        };
        if node.inputs.is_empty() {
            let message = format!("nothing is linked to pipeline {name}: it never gets an event");
            report.push(report.warning(at, message).help("add a link that leads to it"));
        }
        if node.outputs.iter().all(|output| output.port == ERR) {
            let message =
                format!("pipeline {name} leads nowhere: it discards what it lets through");
            report.push(report.warning(at, message).help("add a link that starts with it"));
        }
    }
}

/// Sinks whose errors lead nowhere, in a flow that says elsewhere where errors go. A flow that says it
/// nowhere means that they are logged, and so does a sink that gets dead letters.
fn errors_without_way(spec: &Spec, graph: &Graph, report: &mut Report) {
    let is_linked = graph.edges().any(|(_, edge)| edge.from_port == ERR);
    let is_said = spec.connectors.iter().any(|connector| connector.err.is_some())
        || spec.pipelines.iter().any(|pipeline| pipeline.err.is_some());
    if !is_linked && !is_said {
        return;
    }
    for (node, connector) in sinks(spec, graph) {
        let gets_events = node.inputs.iter().any(|edge| graph.edge(*edge).from_port != ERR);
        // A sink of values, such as `null`, hardly has anything that can fail.
        let can_fail = connector.codec.is_some();
        if !gets_events || !can_fail || connector.err.is_some() || !node.output(ERR).is_empty() {
            continue;
        }
        let name = &connector.name.value;
        let message = format!(
            "nothing is linked to `{name}/err`, while other errors of the flow have a way: what {} \
             cannot deliver fails, and is logged",
            quote(name)
        );
        report.push(
            report
                .warning(connector.name.at, message)
                .help("link it, or set `err: discard`, or `err: dead_letter` if that is meant"),
        );
    }
}

/// Sinks that write one file: each would write into what the other has written.
fn one_file_of_two(flow: &Flow, report: &mut Report) {
    let mut written: HashMap<PathBuf, (Span, &str)> = HashMap::new();
    for (_, connector) in sinks(&flow.spec, &flow.graph) {
        let config = &connector.component.config;
        let path = config.value().get("path").and_then(serde_json::Value::as_str);
        let Some(path) = path.filter(|_| connector.component.name.value == FILE) else { continue };
        let Some(path) = resolved(&flow.folder().join(path)) else { continue };
        let (at, name) = (config.place("/path"), connector.name.value.as_str());
        if let Some((first, other)) = written.get(&path) {
            let message = format!("connectors {} and {} write one file", quote(other), quote(name));
            report.push(
                report
                    .warning(at, message)
                    .note(*first, format!("{} writes it as well", quote(other)))
                    .help("link both to one connector, which writes whole messages"),
            );
        } else {
            written.insert(path, (at, name));
        }
    }
}

/// The sinks of a flow, in the order of the file.
fn sinks<'f>(spec: &'f Spec, graph: &'f Graph) -> impl Iterator<Item = (&'f Node, &'f Connector)> {
    let nodes = graph.nodes().map(|(_, node)| node);
    let mut sinks: Vec<_> = nodes.filter(|node| node.role == Role::Sink).collect();
    sinks.sort_by_key(|node| node.index);
    sinks.into_iter().map(|node| (node, &spec.connectors[node.index]))
}

/// One path for each file, whether it exists or not; none for what is no file, such as `/dev/null`.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(whole) = path.canonicalize() {
        return whole.is_file().then_some(whole);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => Some(folder.join(name)),
        _ => absolute(path).ok(),
    }
}
