//! Converts the YAML tree to the data types of a flow file, and reports all errors.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use super::{
    super::{
        Kind,
        diagnostic::Report,
        link::{self, Link},
        name,
        source::{Located, Span},
        suggest::quote,
        yaml::{Data, Entry, Node},
    },
    Component, Connector, Pipeline, Spec, component,
    fields::{Fields, entries, is_literal, items, text},
    keys, settings,
};

/// A [`Spec`] that may be incomplete, so that further errors can be found after the first one.
pub(crate) struct Draft {
    pub(crate) spec: Spec,
    /// Names of connectors and pipelines whose errors were reported. They are missing in the spec or incomplete.
    pub(crate) faulty: HashSet<String>,
    /// Components of faulty connectors and pipelines that are not in the spec.
    pub(crate) loose: Vec<(Kind, Component)>,
    /// `true` if there may be connectors and pipelines that could not be read. An unknown name is not reported then.
    pub(crate) may_have_more: bool,
    /// `true` if the file has links, including links with errors.
    pub(crate) has_links: bool,
    /// `true` if a link could not be read.
    pub(crate) has_faulty_links: bool,
    /// Location of the key `links`, or of the error if the key is missing.
    pub(crate) links_at: Span,
}

/// Reads a whole flow file. The path determines the default name of the flow and its folder.
pub(crate) fn read(root: &Node, path: &Path, report: &mut Report) -> Draft {
    let mut draft = Draft {
        spec: Spec {
            name: path.file_stem().map_or("flow".into(), |stem| stem.to_string_lossy().into()),
            plugins: Vec::new(),
            connectors: Vec::new(),
            pipelines: Vec::new(),
            links: Vec::new(),
        },
        faulty: HashSet::new(),
        loose: Vec::new(),
        may_have_more: false,
        has_links: true,
        has_faulty_links: false,
        links_at: root.at,
    };
    let Some(fields) = Fields::open(root, "a flow", keys::FLOW, report) else { return draft };

    if let Some((name, at)) = fields.get("name").and_then(|node| text(node, "a name", report)) {
        check_name(name, "a flow", at, report);
        name.clone_into(&mut draft.spec.name);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    draft.spec.plugins = items(fields.get("plugins"), "`plugins`", report)
        .iter()
        .filter_map(|node| read_plugin(node, folder, report))
        .collect();

    draft.may_have_more =
        ["connectors", "pipelines"].into_iter().any(|key| match fields.get(key) {
            Some(node) => !matches!(node.data, Data::Map(_) | Data::Null),
            None => fields.is_misspelt(key),
        });
    let connectors = entries(fields.get("connectors"), "`connectors`", report);
    let pipelines = entries(fields.get("pipelines"), "`pipelines`", report);
    let mut names = Names::default();
    for entry in connectors {
        let fresh = names.declare(entry, "connector", report);
        match read_connector(entry, &mut draft.loose, report) {
            Some(connector) if fresh => draft.spec.connectors.push(connector),
            other => {
                draft.loose.extend(other.into_iter().flat_map(Connector::into_components));
                draft.faulty.insert(entry.key.clone());
            }
        }
    }
    for entry in pipelines {
        let fresh = names.declare(entry, "pipeline", report);
        let before = report.count();
        let pipeline = read_pipeline(entry, report);
        if !fresh || report.count() > before {
            draft.faulty.insert(entry.key.clone());
        }
        match pipeline {
            Some(pipeline) if fresh => draft.spec.pipelines.push(pipeline),
            other => draft.loose.extend(other.into_iter().flat_map(Pipeline::into_components)),
        }
    }

    let links = items(fields.get("links"), "`links`", report);
    draft.links_at = fields.entry("links").map_or(root.at, |entry| entry.at);
    draft.has_links = match fields.get("links") {
        Some(node) => !is_empty(node),
        None => fields.is_misspelt("links"),
    };
    let before = report.count();
    draft.spec.links = links.iter().flat_map(|node| read_links(node, report)).collect();
    draft.has_faulty_links = report.count() > before
        || fields.get("links").is_none_or(|node| !matches!(node.data, Data::List(_)));
    draft
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.data, Data::Null) || matches!(&node.data, Data::List(items) if items.is_empty())
}

/// Names of connectors and pipelines. All of them have to differ, because links identify both kinds by name.
#[derive(Default)]
struct Names<'n> {
    declared: HashMap<&'n str, (&'static str, Span)>,
}

impl<'n> Names<'n> {
    /// Adds a name. If the name was declared before, reports the error and returns `false`.
    fn declare(&mut self, entry: &'n Entry, kind: &'static str, report: &mut Report) -> bool {
        check_name(&entry.key, &format!("a {kind}"), entry.at, report);
        let Some((other, first)) = self.declared.get(entry.key.as_str()) else {
            self.declared.insert(&entry.key, (kind, entry.at));
            return true;
        };
        let name = quote(&entry.key);
        let message = if *other == kind {
            format!("two {kind}s are named {name}")
        } else {
            format!("a {other} and a {kind} are both named {name}")
        };
        report.push(
            report
                .error(entry.at, message)
                .note(*first, format!("the {other} {name} appears here first"))
                .help("rename one of them, and its links"),
        );
        false
    }
}

fn check_name(name: &str, what: &str, at: Span, report: &mut Report) {
    if !name::is_valid(name) {
        report.push(
            report
                .error(at, format!("{} cannot be the name of {what}", quote(name)))
                .help(name::FORM),
        );
    }
}

fn read_plugin(node: &Node, folder: &Path, report: &mut Report) -> Option<Located<PathBuf>> {
    let (path, at) = text(node, "the path of a folder or file with plugins", report)?;
    Some(Located::new(folder.join(path), at))
}

/// Reads a connector. If the connector has no valid type or codec, returns `None` and adds its components to `loose`.
fn read_connector(
    entry: &Entry,
    loose: &mut Vec<(Kind, Component)>,
    report: &mut Report,
) -> Option<Connector> {
    let what = format!("connector {}", quote(&entry.key));
    let fields = Fields::open(&entry.value, &what, keys::CONNECTOR, report)?;

    let component = component::typed(&fields, entry.at, &what, report);
    let codec = match fields.get("codec") {
        Some(node) => component::read(node, "codec", &what, report).map(Some),
        None => Some(None),
    };
    let preprocessors = read_components(fields.get("preprocessors"), "preprocessor", &what, report);
    let postprocessors =
        read_components(fields.get("postprocessors"), "postprocessor", &what, report);
    let reconnect = settings::retry(&fields, "reconnect", &what, report);
    let retry = settings::retry(&fields, "retry", &what, report);
    let restart = settings::restart(&fields, &what, report);
    let call_limit = fields.read("call_limit", report, settings::time);
    let hang_limit = fields.read("hang_limit", report, settings::time);
    if let (Some(node), Some(call), Some(hang)) = (fields.get("hang_limit"), call_limit, hang_limit)
        && hang < call
    {
        let message = format!("`hang_limit` of {what} is shorter than its `call_limit`");
        let help = "a call that has not returned within `hang_limit` fails the flow";
        report.push(report.error(node.at, message).help(help));
    }
    let isolation = settings::isolation(&fields, &what, report);
    let on_failure = fields.read("on_failure", report, settings::on_failure);
    let in_flight = fields.read("in_flight", report, settings::in_flight);
    let ordered = fields.read("ordered", report, settings::boolean);
    let batch = settings::batch(&fields, &what, report);
    let pull = settings::pull(&fields, &what, report);
    let queue = settings::queue(&fields, &what, report);
    let err = fields.read("err", report, settings::err);
    let dead_letters = settings::dead_letters(&fields, &what, report);
    let (component, codec) = match (component, codec) {
        (Some(component), Some(codec)) => (component, codec),
        (component, codec) => {
            loose.extend(kinds(component, codec.flatten(), preprocessors, postprocessors));
            return None;
        }
    };
    Some(Connector {
        name: Located::new(entry.key.clone(), entry.at),
        component,
        codec,
        preprocessors,
        postprocessors,
        reconnect: reconnect.unwrap_or_default(),
        retry: retry.unwrap_or_default(),
        restart: restart.unwrap_or_default(),
        call_limit,
        hang_limit,
        isolation,
        on_failure: on_failure.unwrap_or_default(),
        in_flight,
        ordered,
        batch,
        pull: pull.unwrap_or_default(),
        queue: queue.unwrap_or_default(),
        err,
        dead_letters: dead_letters.unwrap_or_default(),
    })
}

/// Returns the components of a connector with their kinds.
fn kinds(
    component: Option<Component>,
    codec: Option<Component>,
    preprocessors: Vec<Component>,
    postprocessors: Vec<Component>,
) -> impl Iterator<Item = (Kind, Component)> {
    let of = |kind, components| std::iter::repeat(kind).zip(components);
    of(Kind::Connector, Vec::from_iter(component))
        .chain(of(Kind::Codec, Vec::from_iter(codec)))
        .chain(of(Kind::Preprocessor, preprocessors))
        .chain(of(Kind::Postprocessor, postprocessors))
}

impl Connector {
    fn into_components(self) -> impl Iterator<Item = (Kind, Component)> {
        kinds(Some(self.component), self.codec, self.preprocessors, self.postprocessors)
    }
}

impl Pipeline {
    fn into_components(self) -> impl Iterator<Item = (Kind, Component)> {
        self.operators.into_iter().map(|operator| (Kind::Operator, operator))
    }
}

fn read_pipeline(entry: &Entry, report: &mut Report) -> Option<Pipeline> {
    let what = format!("pipeline {}", quote(&entry.key));
    let fields = Fields::open(&entry.value, &what, keys::PIPELINE, report)?;
    let operators = read_components(fields.get("operators"), "operator", &what, report);
    let err = fields.read("err", report, settings::err);
    let dead_letters = settings::dead_letters(&fields, &what, report).unwrap_or_default();
    let name = Located::new(entry.key.clone(), entry.at);
    Some(Pipeline { name, operators, err, dead_letters })
}

fn read_components(
    node: Option<&Node>,
    kind: &str,
    owner: &str,
    report: &mut Report,
) -> Vec<Component> {
    items(node, &format!("the {kind}s of {owner}"), report)
        .iter()
        .filter_map(|node| component::read(node, kind, owner, report))
        .collect()
}

fn read_links(node: &Node, report: &mut Report) -> Vec<Link> {
    if !is_literal(node, "a link as a text", report) {
        return Vec::new();
    }
    let Data::Text(link) = &node.data else {
        let message = format!("expected a link as a text, found {}", node.describe());
        report.push(report.error(node.at, message).help(link::FORM));
        return Vec::new();
    };
    let at = node.at;
    let span = |start, width| match node.inline {
        Some(before) => Span { line: at.line, column: at.column + before + start, width },
        None => at,
    };
    link::parse(link, span).unwrap_or_else(|error| {
        let (start, width) = error.range;
        report.push(report.error(span(start, width), error.message).help(error.help));
        Vec::new()
    })
}
