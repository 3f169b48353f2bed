//! Warnings about content of a flow file that is valid but probably not intended. A problem that is only a consequence
//! of another warning is not reported.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf, absolute},
};

use super::{
    Flow, WhenFull,
    diagnostic::Report,
    graph::{Graph, Node, Role},
    link::ERR,
    source::Span,
    spec::{Connector, Spec},
    suggest::quote,
};

/// Type of the connectors that read or write the file that their key `path` names.
pub(super) const FILE: &str = "file";

/// Reports content of a flow without errors that is probably not intended.
pub(super) fn warn(flow: &Flow, report: &mut Report) {
    unlinked(&flow.spec, &flow.graph, report);
    unhandled_errors(&flow.spec, &flow.graph, report);
    same_file_of_two_sinks(flow, report);
    file_of_source_and_sink(flow, report);
}

/// Reports components that receive no events and components from which no events leave.
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
            let message =
                format!("nothing is linked to pipeline {name}: it never receives an event");
            report.push(report.warning(at, message).help("add a link that leads to it"));
        }
        if node.outputs.iter().all(|output| output.port == ERR) {
            let message = format!("pipeline {name} leads nowhere: its events are discarded");
            report.push(report.warning(at, message).help("add a link that starts with it"));
        }
    }
}

/// Reports sinks whose port `err` is not linked, if other ports `err` of the flow are linked or configured.
///
/// If a flow links or configures no port `err`, its errors are meant to be logged. The same is assumed for a sink that
/// receives only dead letters, directly or through pipelines.
fn unhandled_errors(spec: &Spec, graph: &Graph, report: &mut Report) {
    let is_linked = graph.edges().any(|(_, edge)| edge.from_port == ERR);
    let is_set = spec.connectors.iter().any(|connector| connector.err.is_some())
        || spec.pipelines.iter().any(|pipeline| pipeline.err.is_some());
    if !is_linked && !is_set {
        return;
    }
    let origins = nodes_with_events(graph);
    for (node, connector) in sinks(spec, graph) {
        let gets_events = gets_events(node, graph, &origins);
        // In a sink without a codec, such as `null`, hardly any event can fail.
        let can_fail = connector.codec.is_some();
        // A queue that sends events to a port that is not linked is an error.
        let overflows = connector.queue.when_full == WhenFull::DeadLetter;
        if overflows
            || !gets_events
            || !can_fail
            || connector.err.is_some()
            || !node.output(ERR).is_empty()
        {
            continue;
        }
        let name = &connector.name.value;
        let message = format!(
            "nothing is linked to `{name}/err`, while other errors of the flow are linked or configured: events that {} \
             cannot deliver fail and are logged",
            quote(name)
        );
        report.push(
            report
                .warning(connector.name.at, message)
                .help("link it, or set `err: discard`, or `err: dead_letter` if that is meant"),
        );
    }
}

/// Returns for each node, by its index, whether it receives or produces events other than dead letters.
fn nodes_with_events(graph: &Graph) -> Vec<bool> {
    let mut with_events = Vec::new();
    // Edges lead from lower to higher indices, so the nodes before a node are known.
    for (_, node) in graph.nodes() {
        let has_events = node.role == Role::Source || gets_events(node, graph, &with_events);
        with_events.push(has_events);
    }
    with_events
}

/// Returns whether one of the inputs of a node carries events other than dead letters.
fn gets_events(node: &Node, graph: &Graph, with_events: &[bool]) -> bool {
    node.inputs.iter().any(|edge| {
        let edge = graph.edge(*edge);
        edge.from_port != ERR && with_events.get(edge.from.index()) == Some(&true)
    })
}

/// Reports sinks that write the same file, because each would overwrite data of the other.
fn same_file_of_two_sinks(flow: &Flow, report: &mut Report) {
    let mut written: HashMap<PathBuf, (Span, &str)> = HashMap::new();
    for (_, connector) in sinks(&flow.spec, &flow.graph) {
        let Some(path) = path_of(flow, connector).and_then(|path| resolved(&path)) else {
            continue;
        };
        let at = connector.component.config.span("/path");
        let name = connector.name.value.as_str();
        if let Some((first, other)) = written.get(&path) {
            let message =
                format!("connectors {} and {} write the same file", quote(other), quote(name));
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

/// Reports sources that read a file that a sink of the same flow writes.
fn file_of_source_and_sink(flow: &Flow, report: &mut Report) {
    for (_, source) in of_role(&flow.spec, &flow.graph, Role::Source) {
        let Some(read) = path_of(flow, source) else { continue };
        for (_, sink) in sinks(&flow.spec, &flow.graph) {
            let written = path_of(flow, sink).and_then(|path| resolved(&path));
            if !written.is_some_and(|written| reads(&read, &written)) {
                continue;
            }
            let [source_name, sink_name] = [source, sink].map(|it| quote(&it.name.value));
            let message = format!(
                "source {source_name} reads the file that sink {sink_name} writes: events may \
                 circulate forever, and `mode: truncate` deletes them before they are read"
            );
            report.push(
                report
                    .warning(source.component.config.span("/path"), message)
                    .note(sink.component.config.span("/path"), format!("{sink_name} writes it"))
                    .help(format!(
                        "set `path` of {sink_name} to a file that {source_name} does not read"
                    )),
            );
        }
    }
}

/// Returns whether a source with the path `path`, which may be a pattern, reads the file `written`.
fn reads(path: &Path, written: &Path) -> bool {
    let is_pattern = |path: &Path| path.to_string_lossy().contains(['*', '?', '[']);
    if !is_pattern(path) || path.exists() {
        return resolved(path).is_some_and(|path| path == written);
    }
    // Symbolic links are resolved only in the folders before the first wildcard.
    let fixed = path.ancestors().find(|path| !is_pattern(path)).unwrap_or(Path::new(""));
    let (Ok(folder), Ok(rest)) = (fixed.canonicalize(), path.strip_prefix(fixed)) else {
        return false;
    };
    let folder = glob::Pattern::escape(&folder.to_string_lossy());
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    glob::Pattern::new(&Path::new(&folder).join(rest).to_string_lossy())
        .is_ok_and(|pattern| pattern.matches_path_with(written, options))
}

/// Returns the path of the file of a `file` connector.
fn path_of(flow: &Flow, connector: &Connector) -> Option<PathBuf> {
    let path = connector.component.config.value().get("path")?.as_str()?;
    (connector.component.name.value == FILE).then(|| flow.folder().join(path))
}

/// Returns the sinks of a flow, in the order of the file.
fn sinks<'f>(spec: &'f Spec, graph: &'f Graph) -> impl Iterator<Item = (&'f Node, &'f Connector)> {
    of_role(spec, graph, Role::Sink)
}

/// Returns the connectors that have this role, in the order of the file.
pub(super) fn of_role<'f>(
    spec: &'f Spec,
    graph: &'f Graph,
    role: Role,
) -> impl Iterator<Item = (&'f Node, &'f Connector)> {
    let nodes = graph.nodes().map(|(_, node)| node);
    let mut nodes: Vec<_> = nodes.filter(|node| node.role == role).collect();
    nodes.sort_by_key(|node| node.index);
    nodes.into_iter().map(|node| (node, &spec.connectors[node.index]))
}

/// Returns a canonical path of a file that need not exist. Returns `None` if the path exists but is not a regular file,
/// such as `/dev/null`.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(canonical) = path.canonicalize() {
        return canonical.is_file().then_some(canonical);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => Some(folder.join(name)),
        _ => absolute(path).ok(),
    }
}
