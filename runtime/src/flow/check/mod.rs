//! Checks that need the components that a flow names: types, configurations, and ports of operators.

mod braces;
mod exclusive;
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
pub use self::words::with_unit;
use super::{
    Flow,
    diagnostic::{Diagnostic, Error, Report},
    link::{ERR, End, IN, OUT},
    spec::{Component, Connector, Pipeline},
    suggest::{did_you_mean, list, quote},
};

/// Kind of component that a flow file can name.
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
    /// Every kind of component.
    pub const ALL: [Self; 5] =
        [Self::Connector, Self::Codec, Self::Preprocessor, Self::Postprocessor, Self::Operator];

    /// Returns the name of the kind in messages and in the metadata of plugins.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connector => "connector",
            Self::Codec => "codec",
            Self::Preprocessor => "preprocessor",
            Self::Postprocessor => "postprocessor",
            Self::Operator => "operator",
        }
    }

    /// Returns a component of this kind as messages name it, such as "codec type `json`".
    pub(crate) fn named(self, name: &str) -> String {
        format!("{self} type {}", quote(name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of looking up a component with a [`Resolver`].
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// No component has this kind and name.
    Unknown,
    /// The component exists but cannot be used. Contains the reason, worded to follow "cannot use …: ".
    Unusable(String),
    /// The component exists.
    Known {
        /// JSON Schema (draft 2020-12) of the configuration; `None` accepts any configuration here.
        schema: Option<Value>,
    },
}

/// Access to the components that flows can name: built-in components and components of plugins.
pub trait Resolver {
    /// Looks up a component.
    fn find(&self, kind: Kind, name: &str) -> Lookup;

    /// Returns the names of all components of a kind, in any order.
    fn names(&self, kind: Kind) -> Vec<String>;

    /// Returns the folders and files that were searched for plugins.
    fn searched(&self) -> Vec<PathBuf>;

    /// Returns the output ports other than `out` and `err` that an operator with this configuration has.
    ///
    /// Called only for operators whose configuration fits their schema.
    fn ports(&self, flow: &Flow, operator: &str, config: &Value) -> Vec<String> {
        let _ = (flow, operator, config);
        Vec::new()
    }

    /// Returns the sides that a connector has with this configuration, or `None` if they are not known.
    ///
    /// Called only for connectors whose configuration is valid.
    fn sides(&self, flow: &Flow, connector: &str, config: &Value) -> Option<Sides> {
        let _ = (flow, connector, config);
        None
    }

    /// Checks a configuration beyond its schema. Called only for configurations that fit their schema.
    ///
    /// # Errors
    /// Returns the reason why the configuration is invalid.
    fn check(&self, flow: &Flow, kind: Kind, name: &str, config: &Value) -> tremor_pdk::Result<()> {
        let _ = (flow, kind, name, config);
        Ok(())
    }

    /// Checks whether the connector, its codec and its processors can be combined.
    ///
    /// Called only if the type of the connector is known and its codec is valid.
    ///
    /// # Errors
    /// Returns the combination that is not possible.
    fn check_compatibility(&self, flow: &Flow, connector: &Connector) -> Result<(), Diagnostic> {
        let _ = (flow, connector);
        Ok(())
    }

    /// Returns `true` if it is known that all configurations fit their schemas.
    ///
    /// Implementations must not load the validator into this process, because its code and tables would stay in memory
    /// as long as the flow runs. If one configuration does not fit or the answer is not known, they return `false`.
    /// Only then does this process load its validator, which finds the errors.
    fn all_fit(&self, configurations: &[(&Value, &Value)]) -> bool {
        let _ = configurations;
        false
    }
}

/// Returns whether a configuration fits a schema; `false` if the schema itself is invalid.
pub(crate) fn fits(schema: &Value, config: &Value) -> bool {
    Schema::new(schema.clone()).is_ok_and(|schema| schema.admits(config))
}

/// Checks everything that depends on components.
///
/// Every type must be known, every configuration must fit its schema and its component, the parts of each
/// connector must be compatible, and connectors and operators must have the sides and ports that links use.
///
/// # Errors
/// Returns the errors that were found.
pub fn check(flow: &Flow, resolver: &dyn Resolver) -> Result<(), Error> {
    let mut found = Report::new(Arc::clone(&flow.source));
    report(flow, &HashSet::new(), &[], resolver, &mut found);
    found.finish().map(drop)
}

/// Implements [`check`] for a flow that may be incomplete.
///
/// `faulty` contains the names of connectors and pipelines that are missing in the flow or incomplete. `loose` contains
/// components that are in the file but not in the flow.
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
        let mut is_usable = checker.is_known(Kind::Connector, &connector.component);
        for (kind, component) in parts(connector) {
            let sound = checker.component(kind, component);
            is_usable &= sound || kind != Kind::Codec;
            if sound && kind == Kind::Connector {
                checker.sides(connector);
            }
        }
        if is_usable && let Err(error) = resolver.check_compatibility(flow, connector) {
            checker.report.push(error);
        }
    }
    exclusive::check(flow, resolver, checker.report);
    for pipeline in &flow.spec.pipelines {
        // An operator that is unknown or has an invalid configuration might have any port.
        let mut sound = !faulty.contains(&pipeline.name.value);
        for operator in &pipeline.operators {
            sound &= checker.component(Kind::Operator, operator);
        }
        if sound {
            checker.ports(flow, pipeline);
        }
    }
}

/// Looks up all components, and compiles the schemas unless all configurations are known to fit.
fn found<'f>(
    components: &[(Kind, &'f Component)],
    resolver: &dyn Resolver,
) -> HashMap<(Kind, &'f str), Found> {
    let mut lookups = HashMap::new();
    for (kind, component) in components {
        let name = component.name.value.as_str();
        lookups.entry((*kind, name)).or_insert_with(|| resolver.find(*kind, name));
    }
    // Secrets are registered before a message about any configuration is created.
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
        Lookup::Known { schema: Some(text) } if !all_fit => match Schema::new(text.clone()) {
            Ok(schema) => Found::Yes { schema: Some(schema), text: Some(text) },
            Err(why) => Found::Unusable(format!("cannot check its configuration: {why}")),
        },
        Lookup::Known { schema: text } => Found::Yes { schema: None, text },
    };
    lookups.into_iter().map(|(named, lookup)| (named, found(lookup))).collect()
}

/// Returns all components that a flow names.
pub(crate) fn components(flow: &Flow) -> impl Iterator<Item = (Kind, &Component)> {
    let operators = flow.spec.pipelines.iter().flat_map(|pipeline| &pipeline.operators);
    let of_connectors = flow.spec.connectors.iter().flat_map(parts);
    of_connectors.chain(operators.map(|operator| (Kind::Operator, operator)))
}

/// Returns the connector itself, its codec and its processors.
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

/// Result of looking up a component. The result is stored, so that no plugin is asked twice.
enum Found {
    No,
    Unusable(String),
    /// The component can be used.
    Yes {
        /// The schema, if there is one against which configurations still have to be checked.
        schema: Option<Schema>,
        /// The text of the schema.
        text: Option<Value>,
    },
}

impl Checker<'_> {
    /// Returns whether the component exists and can be used.
    fn is_known(&self, kind: Kind, component: &Component) -> bool {
        matches!(self.found.get(&(kind, component.name.value.as_str())), Some(Found::Yes { .. }))
    }

    /// Checks a component. Returns `true` if the component is valid and all values of its configuration are known.
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
                let message = format!("cannot use {}: {why}", kind.named(name));
                self.report.push(self.report.error(at, message));
                false
            }
            Some(Found::Yes { schema, text }) => {
                let fits = schema.as_ref().is_none_or(|schema| {
                    schema.check(&component.config, &kind.named(name), self.report)
                });
                let text = text.as_ref().filter(|_| fits && kind == Kind::Connector);
                let warnings = text
                    .map(|text| braces::warnings(component, text, self.report))
                    .unwrap_or_default();
                let is_whole = component.config.unknown().is_empty();
                let sound = fits && is_whole && self.constructs(kind, component);
                // The component itself may have rejected the placeholder.
                if sound || !is_whole {
                    warnings.into_iter().for_each(|warning| self.report.push(warning));
                }
                sound
            }
        }
    }

    /// Checks the configuration of a component beyond its schema. Returns `true` if there is no error.
    fn constructs(&mut self, kind: Kind, component: &Component) -> bool {
        let (name, config) = (&component.name.value, &component.config);
        let result = self.resolver.check(self.flow, kind, name, config.value());
        let sound = result.is_ok();
        if let Err(why) = result {
            let why = why.to_string();
            let message = format!("{}: {why}", kind.named(name));
            self.report.push(self.report.error(config.span_for_message(&why), message));
        }
        sound
    }

    /// Reports the first link that uses a side which the connector does not have with its configuration.
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
        // A link from the port `in` was already reported when the graph was built.
        for from in links.filter(|from| from.port != IN && !ports.contains(&from.port)) {
            let message =
                format!("pipeline {} has no output port {}", quote(name), quote(&from.port));
            let near = did_you_mean(&from.port, ports.iter().map(String::as_str));
            let error = self.report.error(from.at, message).maybe_help(near);
            self.report.push(error.help(format!("it has {}", list(&ports))));
        }
    }
}

/// Returns the advice for a name that no component has.
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
