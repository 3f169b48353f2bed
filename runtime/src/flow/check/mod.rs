//! What can be checked once artefacts are known: types, configurations, ports of operators.

mod files;
mod schema;
mod schemas;
mod secrets;
mod words;

use std::{
    collections::{HashMap, HashSet},
    fmt, iter,
    path::PathBuf,
    sync::Arc,
};

use serde_json::Value;
use tremor_pdk::Sides;

pub use self::files::files;
use self::schema::Schema;
pub(super) use self::secrets::keep as keep_secrets;
use super::{
    Flow,
    diagnostic::{Diagnostic, Error, Report},
    link::{ERR, End, IN, OUT},
    spec::{Component, Connector, Pipeline},
    suggest::{did_you_mean, list, quote},
};

/// A kind of artefact that a flow file can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The `type` of a connector.
    Connector,
    /// A codec.
    Codec,
    /// An item of `preprocessors`.
    Preprocessor,
    /// An item of `postprocessors`.
    Postprocessor,
    /// An item of `operators`.
    Operator,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Connector, Self::Codec, Self::Preprocessor, Self::Postprocessor, Self::Operator];

    /// The kind in the words of messages and of plugins' metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connector => "connector",
            Self::Codec => "codec",
            Self::Preprocessor => "preprocessor",
            Self::Postprocessor => "postprocessor",
            Self::Operator => "operator",
        }
    }

    /// An artefact of this kind, in the words of messages.
    pub(crate) fn named(self, name: &str) -> String {
        format!("{self} type {}", quote(name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a [`Resolver`] knows about an artefact.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// There is no such artefact.
    Unknown,
    /// There is one, but it cannot be used, for a reason that completes "… cannot be used: ".
    Unusable(String),
    /// There is one.
    Known {
        /// The JSON Schema (draft 2020-12) of its configuration; `None`: any will do here.
        schema: Option<Value>,
    },
}

/// Knows the artefacts that flows can name: those of plugins and those that are built in.
pub trait Resolver {
    /// Looks an artefact up. Asked once for each kind and name in a flow.
    fn find(&self, kind: Kind, name: &str) -> Lookup;

    /// The names of all artefacts of a kind, in any order.
    fn names(&self, kind: Kind) -> Vec<String>;

    /// The folders and files that were searched for plugins.
    fn searched(&self) -> Vec<PathBuf>;

    /// The ports by which events leave an operator of this configuration, besides `out` and `err`.
    /// Asked only for operators whose configuration fits their schema.
    fn ports(&self, flow: &Flow, operator: &str, config: &Value) -> Vec<String> {
        let _ = (flow, operator, config);
        Vec::new()
    }

    /// Returns the sides that a connector has in this configuration, if they are known. Asked only for connectors
    /// whose configuration is good.
    fn sides(&self, flow: &Flow, connector: &str, config: &Value) -> Option<Sides> {
        let _ = (flow, connector, config);
        None
    }

    /// Says what is wrong with a configuration beyond what its schema tells. Asked only for those that
    /// fit their schema.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self, flow: &Flow, kind: Kind, name: &str, config: &Value) -> tremor_pdk::Result<()> {
        let _ = (flow, kind, name, config);
        Ok(())
    }

    /// Says whether the parts of a connector go together. Asked only where its type is known and nothing
    /// is wrong with its codec.
    ///
    /// # Errors
    /// What does not.
    fn go_together(&self, flow: &Flow, connector: &Connector) -> Result<(), Diagnostic> {
        let _ = (flow, connector);
        Ok(())
    }

    /// Whether all of these fit, pairs of a schema and a configuration, if that can be told without
    /// the validator in this process: its code and tables would stay in memory for as long as the
    /// flow runs. `false` where one does not fit or this is not known: then the validator says more.
    fn all_fit(&self, configurations: &[(&Value, &Value)]) -> bool {
        let _ = configurations;
        false
    }
}

/// Whether a configuration fits a schema; not where that is no schema.
pub(crate) fn fits(schema: &Value, config: &Value) -> bool {
    Schema::new(schema.clone()).is_ok_and(|schema| schema.admits(config))
}

/// Checks all of a flow that depends on artefacts: that every type is known, that every
/// configuration fits its schema and its artefact, that the parts of connectors go together, and that
/// connectors have the sides and operators the ports that links name.
///
/// # Errors
/// Everything that is wrong.
pub fn check(flow: &Flow, resolver: &dyn Resolver) -> Result<(), Error> {
    let mut found = Report::new(Arc::clone(&flow.source));
    report(flow, &HashSet::new(), &[], resolver, &mut found);
    found.finish().map(drop)
}

/// As [`check`], for a flow that is no whole: there is more of those that are `faulty` than the flow
/// has, and `loose` are components that are not in it.
pub(super) fn report(
    flow: &Flow,
    faulty: &HashSet<String>,
    loose: &[(Kind, Component)],
    resolver: &dyn Resolver,
    report: &mut Report,
) {
    let loose = || loose.iter().map(|(kind, component)| (*kind, component));
    let all: Vec<_> = components(flow).chain(loose()).collect();
    let mut checker = Checker { flow, resolver, report, found: found(&all, resolver) };
    loose().for_each(|(kind, component)| _ = checker.component(kind, component));
    for connector in &flow.spec.connectors {
        let mut fit = checker.is_known(Kind::Connector, &connector.component);
        for (kind, component) in parts(connector) {
            let sound = checker.component(kind, component);
            fit &= sound || kind != Kind::Codec;
            if sound && kind == Kind::Connector {
                checker.sides(connector);
            }
        }
        if fit && let Err(error) = resolver.go_together(flow, connector) {
            checker.report.push(error);
        }
    }
    for pipeline in &flow.spec.pipelines {
        // Operators that are unknown or misconfigured might have any port.
        let mut sound = !faulty.contains(&pipeline.name.value);
        for operator in &pipeline.operators {
            sound &= checker.component(Kind::Operator, operator);
        }
        if sound {
            checker.ports(flow, pipeline);
        }
    }
}

/// Looks everything up that a flow names, and compiles the schemas that are needed to say what is
/// wrong.
fn found<'f>(
    components: &[(Kind, &'f Component)],
    resolver: &dyn Resolver,
) -> HashMap<(Kind, &'f str), Found> {
    let mut lookups = HashMap::new();
    for (kind, component) in components {
        let name = component.name.value.as_str();
        lookups.entry((*kind, name)).or_insert_with(|| resolver.find(*kind, name));
    }
    // Before anything is said about a configuration.
    for (kind, component) in components {
        let schema = match lookups.get(&(*kind, component.name.value.as_str())) {
            Some(Lookup::Known { schema }) => schema.as_ref(),
            _ => None,
        };
        if let Some(node) = component.config.node() {
            secrets::keep(node, schema);
        }
    }
    let configurations: Vec<_> = components
        .iter()
        .filter_map(|(kind, component)| {
            match lookups.get(&(*kind, component.name.value.as_str()))? {
                Lookup::Known { schema } => Some((schema.as_ref()?, component.config.value())),
                Lookup::Unknown | Lookup::Unusable(_) => None,
            }
        })
        .collect();
    let is_whole = |component: &Component| component.config.unknown().is_empty();
    let all_fit = configurations.is_empty()
        || components.iter().all(|(_, component)| is_whole(component))
            && resolver.all_fit(&configurations);
    let found = |lookup| match lookup {
        Lookup::Unknown => Found::No,
        Lookup::Unusable(why) => Found::Unusable(why),
        Lookup::Known { schema: Some(schema) } if !all_fit => match Schema::new(schema) {
            Ok(schema) => Found::Yes(Some(schema)),
            Err(why) => Found::Unusable(format!("its configuration cannot be checked: {why}")),
        },
        Lookup::Known { .. } => Found::Yes(None),
    };
    lookups.into_iter().map(|(named, lookup)| (named, found(lookup))).collect()
}

/// All components that a flow names.
pub(crate) fn components(flow: &Flow) -> impl Iterator<Item = (Kind, &Component)> {
    let operators = flow.spec.pipelines.iter().flat_map(|pipeline| &pipeline.operators);
    let of_connectors = flow.spec.connectors.iter().flat_map(parts);
    of_connectors.chain(operators.map(|operator| (Kind::Operator, operator)))
}

/// What a connector consists of.
fn parts(connector: &Connector) -> impl Iterator<Item = (Kind, &Component)> {
    let own = iter::once((Kind::Connector, &connector.component));
    let codec = connector.codec.iter().map(|codec| (Kind::Codec, codec));
    let pre = connector.preprocessors.iter().map(|one| (Kind::Preprocessor, one));
    let post = connector.postprocessors.iter().map(|one| (Kind::Postprocessor, one));
    own.chain(codec).chain(pre).chain(post)
}

struct Checker<'r> {
    flow: &'r Flow,
    resolver: &'r dyn Resolver,
    report: &'r mut Report,
    found: HashMap<(Kind, &'r str), Found>,
}

/// What came of looking an artefact up, kept so that no plugin is asked twice.
enum Found {
    No,
    Unusable(String),
    /// With what its configurations are still to be compared with.
    Yes(Option<Schema>),
}

impl Checker<'_> {
    /// Whether there is such a component, and it can be used.
    fn is_known(&self, kind: Kind, component: &Component) -> bool {
        matches!(self.found.get(&(kind, component.name.value.as_str())), Some(Found::Yes(_)))
    }

    /// Checks a component; `true` if nothing is wrong with it, as far as its configuration is known at all.
    fn component(&mut self, kind: Kind, component: &Component) -> bool {
        let (name, at) = (&component.name.value, component.name.at);
        match self.found.get(&(kind, name.as_str())) {
            None | Some(Found::No) => {
                let mut diagnostic = self.report.error(at, format!("unknown {}", kind.named(name)));
                for help in unknown(self.resolver, kind, name) {
                    diagnostic = diagnostic.help(help);
                }
                self.report.push(diagnostic);
                false
            }
            Some(Found::Unusable(why)) => {
                let message = format!("{} cannot be used: {why}", kind.named(name));
                self.report.push(self.report.error(at, message));
                false
            }
            Some(Found::Yes(schema)) => {
                let fits = schema.as_ref().is_none_or(|schema| {
                    schema.check(&component.config, &kind.named(name), self.report)
                });
                fits && component.config.unknown().is_empty() && self.constructs(kind, component)
            }
        }
    }

    /// Checks what the schema of a component does not tell; `true` if nothing is wrong.
    fn constructs(&mut self, kind: Kind, component: &Component) -> bool {
        let (name, config) = (&component.name.value, &component.config);
        let result = self.resolver.check(self.flow, kind, name, config.value());
        let sound = result.is_ok();
        if let Err(why) = result {
            let why = why.to_string();
            let message = format!("{}: {why}", kind.named(name));
            self.report.push(self.report.error(config.place_of(&why), message));
        }
        sound
    }

    /// Reports the first link that uses a side which the connector does not have in its configuration.
    fn sides(&mut self, connector: &Connector) {
        let (name, Component { name: kind, config }) =
            (&connector.name.value, &connector.component);
        let Some(sides) = self.resolver.sides(self.flow, &kind.value, config.value()) else {
            return;
        };
        let links = self.flow.spec.links.iter();
        let mut leave = links.clone().map(|link| &link.from).filter(|from| from.port == OUT);
        let mut enter = links.map(|link| &link.to);
        let is_own = |end: &&End| end.name == *name;
        let (source, sink) = (("source", "reads"), ("sink", "writes"));
        let (end, (side, verb), (other, _)) = match (leave.find(is_own), enter.find(is_own)) {
            (Some(end), _) if !sides.has_source() => (end, source, sink),
            (_, Some(end)) if !sides.has_sink() => (end, sink, source),
            _ => return,
        };
        let (name, kind) = (quote(name), quote(&kind.value));
        let message =
            format!("connector {name} has no {side}: with this `config`, {kind} {verb} no events");
        let help = format!("change `config` or `type` of {name}, or link it as a {other}");
        self.report.push(self.report.error(end.at, message).help(help));
    }

    fn ports(&mut self, flow: &Flow, pipeline: &Pipeline) {
        let mut ports = vec![OUT.to_owned(), ERR.to_owned()];
        for operator in &pipeline.operators {
            ports.extend(self.resolver.ports(flow, &operator.name.value, operator.config.value()));
        }
        let name = &pipeline.name.value;
        let links = flow.spec.links.iter().map(|link| &link.from).filter(|from| from.name == *name);
        // That nothing leaves by the port that events enter by has been said.
        for from in links.filter(|from| from.port != IN && !ports.contains(&from.port)) {
            let message =
                format!("pipeline {} has no output port {}", quote(name), quote(&from.port));
            let near = did_you_mean(&from.port, ports.iter().map(String::as_str));
            let error = self.report.error(from.at, message).maybe_help(near);
            self.report.push(error.help(format!("it has {}", list(&ports))));
        }
    }
}

/// The advice for a name that no artefact has.
fn unknown(resolver: &dyn Resolver, kind: Kind, name: &str) -> Vec<String> {
    let mut names = resolver.names(kind);
    names.sort_unstable();
    names.dedup();
    let mut help: Vec<_> =
        did_you_mean(name, names.iter().map(String::as_str)).into_iter().collect();
    let others = Kind::ALL.into_iter().filter(|other| *other != kind);
    for other in others.filter(|other| resolver.names(*other).iter().any(|known| known == name)) {
        help.push(format!("there is a {other} of that name"));
    }
    help.push(match names.as_slice() {
        [] => format!("no {kind} types were found"),
        names => format!("known {kind} types are {}", list(names)),
    });
    let searched: Vec<_> =
        resolver.searched().iter().map(|path| path.display().to_string()).collect();
    help.push(match searched.as_slice() {
        [] => "no folder was searched for plugins: name some under `plugins:` or with \
               `--plugin-path`"
            .to_owned(),
        searched => format!("searched for plugins: {}", list(searched)),
    });
    help
}
