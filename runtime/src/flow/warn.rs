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
pub(super) const FILE: &str = "file";

/// Reports what is doubtful in a flow with which nothing is wrong.
pub(super) fn warn(flow: &Flow, report: &mut Report) {
    unlinked(&flow.spec, &flow.graph, report);
    errors_without_way(&flow.spec, &flow.graph, report);
    one_file_of_two(flow, report);
    file_of_source_and_sink(flow, report);
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
        let Some(path) = path_of(flow, connector).and_then(|path| resolved(&path)) else {
            continue;
        };
        let at = connector.component.config.place("/path");
        let name = connector.name.value.as_str();
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

/// Reports sources that read what a sink of the same flow writes.
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
                "source {source_name} reads the file that sink {sink_name} writes: events may come \
                 back without end, and `mode: truncate` deletes them before they are read"
            );
            report.push(
                report
                    .warning(source.component.config.place("/path"), message)
                    .note(sink.component.config.place("/path"), format!("{sink_name} writes it"))
                    .help(format!(
                        "set `path` of {sink_name} to a file that {source_name} does not read"
                    )),
            );
        }
    }
}

/// Returns whether a source with this path, which may be a pattern, reads the file with the path `written`.
fn reads(path: &Path, written: &Path) -> bool {
    let is_pattern = |path: &Path| path.to_string_lossy().contains(['*', '?', '[']);
    if !is_pattern(path) || path.exists() {
        return resolved(path).is_some_and(|path| path == written);
    }
    // Links are resolved in the folders before the first wildcard.
    let fixed = path.ancestors().find(|path| !is_pattern(path)).unwrap_or(Path::new(""));
    let (Ok(folder), Ok(rest)) = (fixed.canonicalize(), path.strip_prefix(fixed)) else {
        return false;
    };
    let folder = glob::Pattern::escape(&folder.to_string_lossy());
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    glob::Pattern::new(&Path::new(&folder).join(rest).to_string_lossy())
        .is_ok_and(|pattern| pattern.matches_path_with(written, options))
}

/// Returns the path of a `file` connector.
fn path_of(flow: &Flow, connector: &Connector) -> Option<PathBuf> {
    let path = connector.component.config.value().get("path")?.as_str()?;
    (connector.component.name.value == FILE).then(|| flow.folder().join(path))
}

/// The sinks of a flow, in the order of the file.
fn sinks<'f>(spec: &'f Spec, graph: &'f Graph) -> impl Iterator<Item = (&'f Node, &'f Connector)> {
    of_role(spec, graph, Role::Sink)
}

/// Returns the connectors of a flow with this role, in the order of the file.
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
