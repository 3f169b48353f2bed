//! Flow files that may contain errors.

use std::{collections::HashSet, sync::Arc};

use tremor_pdk::names_credentials;

use super::{
    Component, Content, Diagnostic, Environment, Error, Flow, Kind, Limits, Resolver, check,
    diagnostic::Report,
    framing, graph, modes, pairs,
    source::{Source, Span},
    spec, stored, warn,
    yaml::{self, Parsed, Problem},
};

/// The part of a flow file that could be understood, with all errors found so far.
#[derive(Debug)]
pub struct Draft {
    /// The connectors and pipelines that are complete. The graph is empty if there is any error.
    flow: Flow,
    report: Report,
    /// Names of connectors and pipelines that are missing in the flow or incomplete.
    faulty: HashSet<String>,
    /// Components of faulty connectors and pipelines that are not in the flow.
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
        for Problem { scalar, diagnostic, missing } in problems {
            // A reference where references are not permitted was already reported, so an error within such a reference
            // is not reported again.
            if !report.points_at(scalar) {
                let is_secret = || root.is_below(scalar, &names_credentials);
                let help = missing.map(|(secret, open)| if is_secret() { secret } else { open });
                report.push(diagnostic.maybe_help(help));
            }
        }
        let graph = graph::build(&draft, &mut report);
        let spec::Draft { spec, faulty, loose, .. } = draft;
        let content = Content(Arc::new(root.to_json()));
        let flow = Flow { spec, graph, warnings: Vec::new(), source, content };
        if !report.has_errors() {
            warn::warn(&flow, &mut report);
            modes::check(&flow, &mut report);
            pairs::check(&flow, &mut report);
            framing::check(&flow, &mut report);
            stored::check(&flow, &mut report);
        }
        Ok(Self { flow, report, faulty, loose })
    }

    /// Returns the part of the flow that could be understood, to find the plugins of its components. A flow with errors
    /// must not be run.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Adds an error.
    pub fn add(&mut self, error: Diagnostic) {
        self.report.push(error);
    }

    /// Also checks everything that depends on components, as [`check()`](check::check) does.
    ///
    /// # Errors
    /// The errors of the flow, in the order of the file.
    pub fn check(mut self, resolver: &dyn Resolver) -> Result<Flow, Error> {
        check::report(&self.flow, &self.faulty, &self.loose, resolver, &mut self.report);
        self.finish()
    }

    /// Returns the flow, if it has no errors.
    ///
    /// # Errors
    /// The errors found so far.
    pub fn finish(self) -> Result<Flow, Error> {
        let warnings = self.report.finish()?;
        Ok(Flow { warnings, ..self.flow })
    }
}

/// A draft of a flow that has no errors so far.
impl From<Flow> for Draft {
    fn from(mut flow: Flow) -> Self {
        let mut report = Report::new(Arc::clone(&flow.source));
        flow.warnings.drain(..).for_each(|warning| report.push(warning));
        Self { flow, report, faulty: HashSet::new(), loose: Vec::new() }
    }
}
