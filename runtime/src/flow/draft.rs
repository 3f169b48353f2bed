//! Flow files that are not known to be good.

use std::{collections::HashSet, sync::Arc};

use super::{
    Component, Diagnostic, Environment, Error, Flow, Kind, Limits, Resolver, check,
    diagnostic::Report,
    graph, modes, pairs,
    source::{Source, Span},
    spec, warn,
    yaml::{self, Parsed, Problem},
};

/// A flow file as far as it could be understood, with everything that was found wrong with it so far.
#[derive(Debug)]
pub struct Draft {
    /// What of it is in one piece. Its graph is empty where anything is wrong.
    flow: Flow,
    report: Report,
    /// Names of connectors and pipelines that are not in the flow as a whole.
    faulty: HashSet<String>,
    /// What those consist of that are not in the flow.
    loose: Vec<(Kind, Component)>,
}

impl Draft {
    pub(super) fn new(
        source: Arc<Source>,
        limits: &Limits,
        environment: &Environment<'_>,
    ) -> Result<Self, Error> {
        let mut report = Report::new(Arc::clone(&source));
        let Parsed { root, problems } = yaml::parse(&source, limits, Some(environment))?;
        let Some(root) = root.filter(|root| root.data != yaml::Data::Null) else {
            let empty = report.error(Span::START, "the file is empty, expected a flow");
            return Err(empty.help("a flow has at least `connectors:` and `links:`").into());
        };
        let draft = spec::read(&root, source.path(), &mut report);
        for Problem { scalar, diagnostic } in problems {
            // What is wrong with a reference that cannot stand there does not matter.
            if !report.points_at(scalar) {
                report.push(diagnostic);
            }
        }
        let graph = graph::build(&draft, &mut report);
        let spec::Draft { spec, faulty, loose, .. } = draft;
        let flow = Flow { spec, graph, warnings: Vec::new(), source };
        if !report.has_errors() {
            warn::warn(&flow, &mut report);
            modes::check(&flow, &mut report);
            pairs::check(&flow, &mut report);
        }
        Ok(Self { flow, report, faulty, loose })
    }

    /// What could be understood, to find out where its components are. Not to be run.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Adds something that is wrong with the flow.
    pub fn add(&mut self, error: Diagnostic) {
        self.report.push(error);
    }

    /// Checks all that depends on artefacts as well, as [`check()`](check::check) does.
    ///
    /// # Errors
    /// Everything that is wrong with the flow, in the order of the file.
    pub fn check(mut self, resolver: &dyn Resolver) -> Result<Flow, Error> {
        check::report(&self.flow, &self.faulty, &self.loose, resolver, &mut self.report);
        self.finish()
    }

    /// The flow, if nothing is wrong with it.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn finish(self) -> Result<Flow, Error> {
        let warnings = self.report.finish()?;
        Ok(Flow { warnings, ..self.flow })
    }
}

/// Nothing is wrong with it so far.
impl From<Flow> for Draft {
    fn from(mut flow: Flow) -> Self {
        let mut report = Report::new(Arc::clone(&flow.source));
        flow.warnings.drain(..).for_each(|warning| report.push(warning));
        Self { flow, report, faulty: HashSet::new(), loose: Vec::new() }
    }
}
