//! Flow files: reads and checks them, and builds the graph that they describe.
//!
//! ```yaml
//! # logs.yaml
//! plugins: [../target/release]
//! connectors:
//!   input:
//!     type: file
//!     preprocessors: [lines]
//!     codec: json
//!     config: { path: logs.json, mode: read }
//!   output: { type: stdio, codec: json, postprocessors: [lines] }
//! pipelines:
//!   errors:
//!     operators:
//!       - { type: filter, config: { field: level, equals: error } }
//! links:
//!   - input -> errors -> output
//! ```
//!
//! [`load`] does everything that is possible without plugins: it reads the file, parses the YAML, and creates the model
//! ([`Spec`]) and the [`Graph`]. [`check()`] makes the remaining checks with a [`Resolver`] that knows components: it
//! finds unknown types, checks configurations against their schemas, and checks the ports of operators. To get all
//! errors at once, call [`read`] and check the returned [`Draft`], which is possible even if the draft has errors. All
//! of these functions collect errors up to a maximum number, and return them as [`Diagnostic`]s with file, line, column
//! and advice.
//!
//! This module does not depend on plugins and runs nothing.

mod check;
mod diagnostic;
mod difference;
mod draft;
mod framing;
mod graph;
mod limits;
mod link;
mod modes;
mod name;
mod pairs;
mod queues;
mod read;
mod reference;
mod schema;
mod source;
mod spec;
mod stored;
mod suggest;
mod warn;
mod yaml;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    check::{Kind, Lookup, Resolver, check, files, with_unit},
    diagnostic::{Diagnostic, Error, Severity},
    draft::Draft,
    graph::{Edge, EdgeId, Graph, Node, NodeId, Output, Role},
    limits::Limits,
    link::{ERR, End, IN, Link, OUT},
    reference::Environment,
    schema::{Described, schema},
    source::{Located, Span},
    spec::{
        Batch, Component, Config, Connector, Disk, Isolation, OnFailure, Pipeline, Pull, Queue,
        Restart, Retry, Spec, Unhandled, WhenFull,
    },
};
pub(crate) use self::{
    check::{components, fits},
    difference::{ChangedConnector, ChangedParts, Difference},
    name::{FORM as NAME_FORM, is_valid as is_valid_name},
    queues::owner_of,
    spec::{
        MOST_BATCH_BYTES, MOST_IN_FLIGHT, MOST_LINGER, SINK_BATCH_BYTES, SINK_BATCH_EVENTS,
        SINK_BATCH_LINGER,
    },
    suggest::{did_you_mean, list, quote},
};
use self::{diagnostic::Report, source::Source};

/// A flow file that is valid as far as this can be checked without plugins.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Content of the file.
    pub spec: Spec,
    /// Nodes and edges that the links describe.
    pub graph: Graph,
    /// Warnings about content that does not prevent the flow from running but is probably not intended.
    pub warnings: Vec<Diagnostic>,
    source: Arc<Source>,
    content: Content,
}

/// Content of a file with all references replaced, but those to files. `Debug` shows nothing of it, because values of
/// references may be secrets.
#[derive(Clone)]
struct Content(Arc<serde_json::Value>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Flow {
    /// Returns the name of the flow.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the path of the flow file, as it was given to [`load`].
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// Returns the folder of the flow file, to which paths in the file are relative. Empty for a bare file name.
    pub fn folder(&self) -> &Path {
        self.path().parent().unwrap_or(Path::new(""))
    }

    /// Returns whether a link uses the connector called `name`.
    pub(crate) fn is_linked(&self, name: &str) -> bool {
        [Role::Source, Role::Sink].iter().any(|role| self.graph.find(*role, name).is_some())
    }

    /// Creates an error about a location in this file, for errors that are found only later, such as a plugin path that
    /// does not exist. `From` converts the diagnostic to an [`Error`].
    pub fn error(&self, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Arc::clone(&self.source), at, message)
    }
}

/// Reads a flow file within the default [`Limits`].
///
/// # Errors
/// The faults of the file.
pub fn load(path: impl AsRef<Path>) -> Result<Flow, Error> {
    load_within(path, &Limits::default())
}

/// Reads a flow file within `limits`.
///
/// # Errors
/// The faults of the file.
pub fn load_within(path: impl AsRef<Path>, limits: &Limits) -> Result<Flow, Error> {
    Draft::new(read::read(path.as_ref(), limits)?, limits, &Environment::default())?.finish()
}

/// Reads the content of a YAML file that is not a flow file, within the default [`Limits`].
///
/// # Errors
/// The file cannot be read, or it is not valid YAML.
pub fn read_yaml(path: &Path) -> Result<serde_json::Value, Error> {
    let limits = Limits::default();
    let source = read::read(path, &limits)?;
    let mut report = Report::new(Arc::clone(&source));
    let root = yaml::parse(&source, &limits, None)?.root;
    if let Some(root) = &root {
        root.report_repeated_keys(&mut report);
    }
    report.finish()?;
    let empty = serde_json::Value::Object(serde_json::Map::new());
    Ok(root.filter(|root| root.data != yaml::Data::Null).map_or(empty, |root| root.to_json()))
}

/// Keeps the values that `schema` marks as secret out of all messages. `config` is a configuration that is not part of
/// a flow.
///
/// # Errors
/// The configuration exceeds the default [`Limits`].
pub(crate) fn keep_secrets(
    config: &serde_json::Value,
    schema: &serde_json::Value,
) -> Result<(), Error> {
    let source = source::Source::new(PathBuf::new(), config.to_string());
    let parsed = yaml::parse(&source, &Limits::default(), None)?;
    if let Some(root) = &parsed.root {
        check::keep_secrets(root, Some(schema));
    }
    Ok(())
}

/// Reads a flow file within the default [`Limits`], and returns the part that can be understood. References are
/// replaced by their values in `environment`.
///
/// # Errors
/// The file cannot be read, or it is not valid YAML.
pub fn read(path: impl AsRef<Path>, environment: &Environment<'_>) -> Result<Draft, Error> {
    let limits = Limits::default();
    Draft::new(read::read(path.as_ref(), &limits)?, &limits, environment)
}

/// Parses `text` as if it were the content of the flow file `path`.
///
/// The path determines the file that messages name, the folder to which paths in the text are relative, and the name of
/// the flow if the text sets none.
///
/// # Errors
/// The text is not valid YAML.
pub fn parse(
    path: impl Into<PathBuf>,
    text: impl Into<String>,
    limits: &Limits,
    environment: &Environment<'_>,
) -> Result<Draft, Error> {
    Draft::new(Source::new(path.into(), text.into()), limits, environment)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(path: &str, text: &str, limits: &Limits) -> Result<Flow, Error> {
        super::parse(path, text, limits, &Environment::default())?.finish()
    }

    fn message(result: Result<Flow, Error>) -> String {
        let error = result.expect_err("no such flow can be loaded");
        assert_eq!(error.diagnostics().len(), 1);
        error.diagnostics()[0].message().to_owned()
    }

    #[test]
    fn unreadable_file_is_reported_with_its_reason() {
        let folder = tempfile::tempdir().expect("a folder for tests");
        let missing = folder.path().join("flow.yaml");
        assert_eq!(message(load(&missing)), "there is no such file");
        assert_eq!(message(load(folder.path())), "this is a folder, not a flow file");

        fs::write(&missing, "links: []").expect("writable");
        let limits = Limits { max_file_bytes: 8, ..Limits::default() };
        let too_large = "the file is larger than 8 bytes, the limit for a flow file";
        assert_eq!(message(load_within(&missing, &limits)), too_large);
    }

    #[test]
    fn limits_can_be_set() {
        let limits = Limits { max_depth: 2, ..Limits::default() };
        let flow = parse("f", "links: [[a]]", &Limits { max_depth: 3, ..limits });
        assert!(message(flow).contains("expected a link"));
        let flow = parse("f", "links: [[a]]", &limits);
        assert_eq!(message(flow), "lists and maps nest deeper than 2 levels");
        let flow = parse("f", "links: a", &Limits { max_expanded_bytes: 32, ..limits });
        assert!(message(flow).contains("exceeds 32 bytes"));
    }

    #[test]
    fn integers_keep_all_their_bits() {
        let text = "
connectors:
  a:
    type: x
    config: { most: 18446744073709551615, least: -9223372036854775808 }
links: [a -> a]";
        let flow = parse("dir/f.yaml", text, &Limits::default()).expect("a valid flow");
        let config = &flow.spec.connectors[0].component.config;
        assert_eq!(config.value()["most"].as_u64(), Some(u64::MAX));
        assert_eq!(config.value()["least"].as_i64(), Some(i64::MIN));
        assert_eq!(config.span("/least"), Span { line: 5, column: 50, width: 20 });
        assert_eq!(config.span("/missing"), config.at());
        assert_eq!((flow.name(), flow.folder()), ("f", Path::new("dir")));
    }

    #[test]
    fn plugin_paths_are_relative_to_the_flow_file() {
        let text = "plugins: [../lib, /opt/lib]\nconnectors: { a: { type: x } }\nlinks: [a -> a]";
        let flow = parse("dir/f.yaml", text, &Limits::default()).expect("a valid flow");
        let paths: Vec<_> = flow.spec.plugins.iter().map(|plugin| &*plugin.value).collect();
        assert_eq!(paths, [Path::new("dir/../lib"), Path::new("/opt/lib")]);
    }

    #[test]
    fn edges_lead_to_later_nodes() {
        let text = "
connectors: { z: { type: x }, y: { type: x } }
pipelines: { p: {}, q: {} }
links: [q -> y, p -> q, z -> p, z/err -> q]";
        let flow = parse("f", text, &Limits::default()).expect("a valid flow");
        for (_, edge) in flow.graph.edges() {
            assert!(edge.from < edge.to);
        }
        let source = flow.graph.find(Role::Source, "z").expect("a linked source");
        let node = flow.graph.node(source);
        assert_eq!((source.index(), node.inputs.len()), (0, 0));
        assert_eq!((node.output(OUT).len(), node.output(ERR).len()), (1, 1));
    }

    #[test]
    fn flows_can_be_sent_between_threads() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<Flow>();
    }

    #[test]
    fn value_of_reference_is_not_interpreted_again() {
        let text = "
connectors:
  a:
    type: x
    config:
      text: ${env:TEXT} $${env:TEXT}
      number: ${env:NUMBER}
      quoted: \"${env:NUMBER}\"
links: [a -> a]";
        let variable = |name: &str| match name {
            "TEXT" => Some("${env:NUMBER} [: {".into()),
            _ => Some("-7".into()),
        };
        let environment = Environment::default().variables(&variable);
        let draft = super::parse("f", text, &Limits::default(), &environment).expect("YAML");
        let flow = draft.finish().expect("a valid flow");
        let expected = serde_json::json!({
            "text": "${env:NUMBER} [: { ${env:TEXT}", "number": -7, "quoted": "-7",
        });
        assert_eq!(*flow.spec.connectors[0].component.config.value(), expected);
    }

    #[test]
    fn debug_output_hides_values_of_references() {
        let text = "
connectors:
  a: { type: x, config: { list: [{ key: '${env:KEY}' }], plain: shown } }
links: [a -> a]";
        let environment = Environment::default().variables(&|_: &str| Some("debug-canary".into()));
        let draft = super::parse("f", text, &Limits::default(), &environment).expect("YAML");
        let shown = format!("{draft:?} {draft:#?}");
        assert!(!shown.contains("debug-canary"), "{shown}");
        assert!(shown.contains("${env:KEY}") && shown.contains("shown"), "{shown}");
        let flow = draft.finish().expect("a valid flow");
        assert_eq!(
            flow.spec.connectors[0].component.config.value()["list"][0]["key"],
            "debug-canary"
        );
        crate::redact::keep("debug-canary");
        let error = flow.error(Span::START, "no debug-canary").help("debug-canary");
        let error = error.note(Span::START, "a debug-canary");
        assert!(!format!("{error:?} {error}").contains("debug-canary"));
        assert_eq!(error.message(), "no [redacted]");
    }
}
