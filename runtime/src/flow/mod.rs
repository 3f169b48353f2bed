//! Flow files: from YAML to a checked graph.
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
//! [`load`] does all that needs no plugin: reading, YAML, the model ([`Spec`]), and the [`Graph`].
//! [`check`] does the rest, given a [`Resolver`] that knows artefacts: unknown types,
//! configurations against their schemas, ports of operators. Both collect as many errors as make
//! sense and return them as [`Diagnostic`]s with file, line, column and advice.
//!
//! Nothing here knows what a plugin is or runs anything.

mod check;
mod diagnostic;
mod graph;
mod limits;
mod link;
mod name;
mod source;
mod spec;
mod suggest;
mod yaml;

use std::{path::Path, sync::Arc};

pub use self::{
    check::{Kind, Lookup, Resolver, check},
    diagnostic::{Diagnostic, Error, Severity},
    graph::{Edge, EdgeId, Graph, Node, NodeId, Output, Role},
    limits::Limits,
    link::{ERR, End, IN, Link, OUT},
    source::{Located, Span},
    spec::{Component, Config, Connector, Pipeline, Queue, Reconnect, Spec},
};
use self::{diagnostic::Report, source::Source};

/// A flow file that was read and found sound as far as that can be told without plugins.
#[derive(Debug, Clone)]
pub struct Flow {
    /// What the file says.
    pub spec: Spec,
    /// What its links make of it.
    pub graph: Graph,
    /// What does not keep the flow from running but is probably not meant.
    pub warnings: Vec<Diagnostic>,
    source: Arc<Source>,
}

impl Flow {
    /// The flow's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The flow file, as its path was given to [`load`].
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// The folder of the flow file, to which paths in it are relative. Empty for a bare file name.
    pub fn folder(&self) -> &Path {
        self.path().parent().unwrap_or(Path::new(""))
    }

    /// An error at a place in this flow's file, for what is only found out later: a plugin path
    /// that does not exist, a connector that cannot be a sink. Goes into an [`Error`] by `From`.
    pub fn error(&self, at: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Arc::clone(&self.source), at, message)
    }
}

/// Reads a flow file, within the default [`Limits`].
///
/// # Errors
/// Everything that is wrong with the file.
pub fn load(path: impl AsRef<Path>) -> Result<Flow, Error> {
    load_within(path, &Limits::default())
}

/// Reads a flow file, within limits.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn load_within(path: impl AsRef<Path>, limits: &Limits) -> Result<Flow, Error> {
    let source = Source::read(path.as_ref(), limits)?;
    parse(source, limits)
}

fn parse(source: Arc<Source>, limits: &Limits) -> Result<Flow, Error> {
    let mut report = Report::new(Arc::clone(&source));
    let root = yaml::parse(&source, limits)?.filter(|root| root.data != yaml::Data::Null);
    let Some(root) = root else {
        let empty = report.error(Span::START, "the file is empty, expected a flow");
        return Err(empty.help("a flow has at least `connectors:` and `links:`").into());
    };
    let draft = spec::read(&root, source.path(), &mut report);
    let graph = graph::build(&draft, &mut report);
    let warnings = report.finish()?;
    Ok(Flow { spec: draft.spec, graph, warnings, source })
}
