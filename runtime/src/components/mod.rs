//! Components that flows can name: built-in ones and those of plugins.

mod about;
mod ahead;
mod built_in;
mod carried;
mod codec;
mod isolated;
mod parts;
mod positions;
mod supervised;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use serde_json::Value as Config;
use tremor_pdk::{Result, Sides, lock, template::TemplateFields};

#[cfg(test)]
pub(crate) use self::built_in::factory;
pub use self::built_in::{built_in_names, codec, operator};
pub(crate) use self::parts::FlowParts;
use self::{about::about, built_in::BuiltIn, codec::Chosen};
use crate::{
    flow::{self, Described, Flow, Kind, Lookup, Resolver},
    linked::LinkedPlugin,
    plugin::{
        self, ArtefactMetadata, Describer, InstanceInfo, Library, Policy, Problem, Registry,
        SearchPath,
    },
};

/// The components against which flows are checked and from which they are created. If a built-in component and a
/// component of a plugin have the same name, the built-in one is used.
pub struct Components {
    registry: Registry,
    describer: Describer,
    policy: Policy,
    /// Answers of plugins about configurations, so that no plugin is asked the same question twice.
    answers: Mutex<HashMap<Question, Answer>>,
    /// Hashes of pairs of a schema and a configuration that fits the schema.
    fitting: Mutex<HashSet<u128>>,
    /// Fields that the templates of connectors read, by the type and the configuration of the connector.
    templates: Mutex<HashMap<(String, String), Fields>>,
}

/// Payload fields that the templates of a configuration read.
type Fields = Option<Arc<TemplateFields>>;

/// Question: library, folder of the flow, kind, name and configuration.
type Question = (PathBuf, PathBuf, Kind, String, String);
/// Answer: the properties of an instance, or the error of its configuration.
type Answer = Result<InstanceInfo>;

impl Components {
    /// Scans for plugins without running their code. Also returns the problems of libraries that cannot be used. A
    /// problem affects only flows that need the library.
    pub fn find(
        paths: &[SearchPath],
        describer: Describer,
        policy: Policy,
    ) -> (Self, Vec<Problem>) {
        let (registry, mut problems) = Registry::scan(paths);
        problems.extend(shadowed(&registry));
        (Self::new(registry, describer, policy), problems)
    }

    /// Returns the components of plugins that are linked into this program, and no others.
    ///
    /// # Errors
    /// Errors of [`Library::linked`].
    pub fn linked(
        plugins: impl IntoIterator<Item = LinkedPlugin>,
        policy: Policy,
    ) -> Result<Self, plugin::Error> {
        let registry = Registry::of(Library::linked(plugins)?);
        let describer = Describer::new(policy);
        Ok(Self::new(registry, describer, policy))
    }

    fn new(registry: Registry, describer: Describer, policy: Policy) -> Self {
        Self {
            registry,
            describer,
            policy,
            answers: Mutex::default(),
            fitting: Mutex::default(),
            templates: Mutex::default(),
        }
    }

    /// Checks everything in a flow that depends on components: types, configurations and codecs.
    ///
    /// # Errors
    /// The errors of the flow.
    pub fn check(&self, flow: &Flow) -> Result<(), flow::Error> {
        flow::check(flow, self)
    }

    /// Returns a resolver for flows that run without their connectors. It accepts any connector type.
    pub fn without_connectors(&self) -> impl Resolver {
        WithoutConnectors(self)
    }

    /// Returns the properties of an instance with this configuration, or the error of the configuration. A plugin is
    /// asked only once for the same configuration.
    fn ask(&self, flow: &Flow, kind: Kind, name: &str, config: &Config) -> Answer {
        if let Some(built_in) = BuiltIn::find(kind, name) {
            return built_in.check(config);
        }
        let folder = flow.folder();
        let Some(library) = self.library(kind, name) else { return Ok(InstanceInfo::default()) };
        let question = Self::question(library, flow, kind, name, config);
        let mut answers = lock(&self.answers);
        let ask = || Ok(self.describer.check(library, (kind.as_str(), name), config, folder)?);
        answers.entry(question).or_insert_with(ask).clone()
    }

    fn question(
        library: &Library,
        flow: &Flow,
        kind: Kind,
        name: &str,
        config: &Config,
    ) -> Question {
        let (path, folder) = (library.path().to_owned(), flow.folder().to_owned());
        (path, folder, kind, name.to_owned(), config.to_string())
    }

    /// Returns all components that flows can name, each with the JSON Schema of its configuration. Also returns the
    /// problems of components whose schema is not known.
    pub fn described(&self) -> (Vec<Described>, Vec<String>) {
        let (mut described, mut problems) = (Vec::new(), Vec::new());
        for kind in Kind::ALL {
            let mut names = self.names(kind);
            names.sort_unstable();
            names.dedup();
            for name in names {
                let config = match self.find(kind, &name) {
                    Lookup::Known { schema } => schema,
                    Lookup::Unknown => continue,
                    Lookup::Unusable(why) => {
                        problems.push(format!("{}: {why}", kind.named(&name)));
                        continue;
                    }
                };
                let artefact = self.artefact(kind, &name);
                let stated = artefact.map(|artefact| artefact.description.clone());
                let stated = stated.filter(|stated| !stated.is_empty());
                let description = stated.unwrap_or_else(|| about(kind, &name, config.as_ref()));
                let codec = match artefact.and_then(|artefact| artefact.codec.as_deref()) {
                    Some("required") => Some(true),
                    Some("structured") => Some(false),
                    _ => None,
                };
                described.push(Described { kind, name, description, codec, config });
            }
        }
        (described, problems)
    }

    /// Returns the libraries that a flow uses, each once.
    pub fn libraries(&self, flow: &Flow) -> Vec<&Library> {
        let mut libraries: Vec<&Library> = Vec::new();
        for (kind, component) in flow::components(flow) {
            let library = self.library(kind, &component.name.value);
            let library =
                library.filter(|new| libraries.iter().all(|old| old.path() != new.path()));
            libraries.extend(library);
        }
        libraries
    }

    /// Returns the path of a library of a flow that has other contents now, or is another one, than in the components
    /// with which the flow was created.
    pub(crate) fn changed_library(&self, flow: &Flow, earlier: &Self) -> Option<PathBuf> {
        let (now, before) = (self.libraries(flow), earlier.libraries(flow));
        let is_known = |it: &&&Library| before.iter().any(|earlier| it.is_same_as(earlier));
        let changed = now.iter().find(|it| !is_known(it));
        changed.map(|library| library.path().to_owned())
    }

    /// Returns the library that provides a component, unless a built-in component has that name.
    fn library(&self, kind: Kind, name: &str) -> Option<&Library> {
        if BuiltIn::find(kind, name).is_some() {
            return None;
        }
        self.registry.find(kind.as_str(), name).ok().flatten()
    }

    /// Returns the metadata of a component of a plugin.
    fn artefact(&self, kind: Kind, name: &str) -> Option<&ArtefactMetadata> {
        self.library(kind, name)?.artefact(kind.as_str(), name)
    }

    /// Returns the codec of a connector, which depends on the metadata of the connector and on the codec in the flow.
    fn codec_of<'f>(
        &self,
        flow: &Flow,
        connector: &'f flow::Connector,
    ) -> Result<Option<Chosen<'f>>, flow::Diagnostic> {
        let (name, kind) = (&connector.name.value, &connector.component.name);
        let chosen = match &connector.codec {
            Some(component) if BuiltIn::find(Kind::Codec, &component.name.value).is_some() => {
                let created = codec(&component.name.value, component.config.value());
                Some(Chosen::BuiltIn(
                    created.map_err(|it| wrong(flow, Kind::Codec, component, &it))?,
                ))
            }
            Some(component) => Some(Chosen::Plugin(component)),
            None => None,
        };
        let artefact = self.artefact(Kind::Connector, &kind.value);
        let need = artefact.and_then(|artefact| artefact.codec.as_deref());
        match (need, chosen) {
            (Some("structured"), Some(_)) => {
                let at = connector.codec.as_ref().map_or(kind.at, |codec| codec.name.at);
                let message = format!(
                    "connector `{name}` has a codec, but `{kind}` accepts none: its events are values",
                    kind = kind.value
                );
                Err(flow.error(at, message).help("remove `codec`"))
            }
            (Some("required"), None) => {
                let message = format!(
                    "connector `{name}` has no codec, but `{}` needs one: it reads and writes bytes",
                    kind.value
                );
                let names = self.names(Kind::Codec).join(", ");
                let help = format!("add `codec:` with one of {names}");
                Err(flow.error(connector.name.at, message).help(help))
            }
            (Some("optional"), None) => {
                let default = artefact.and_then(|artefact| artefact.default_codec.as_deref());
                let created = codec(default.unwrap_or_default(), &Config::Null);
                created.map(|codec| Some(Chosen::BuiltIn(codec))).map_err(|error| {
                    let message = format!("the default codec of `{}`: {error}", kind.value);
                    flow.error(kind.at, message)
                })
            }
            (_, chosen) => Ok(chosen),
        }
    }
}

/// Returns whether there is a built-in component with this kind, as in metadata, and this name.
pub fn is_built_in(kind: &str, name: &str) -> bool {
    BuiltIn::exists(kind, name)
}

/// Returns a problem for each component of a plugin that flows cannot use, because a built-in one has its name.
pub fn shadowed(registry: &Registry) -> Vec<Problem> {
    let mut problems = Vec::new();
    for library in registry.libraries() {
        let artefacts = library.metadata().artefacts.iter();
        let shadowed = artefacts.filter(|it| is_built_in(&it.kind, &it.name));
        problems.extend(shadowed.map(|it| Problem {
            error: library.shadowed(it),
            origin: "the plugin path".to_owned(),
        }));
    }
    problems
}

/// Creates the error of an invalid configuration, with its location in the flow file.
fn wrong(
    flow: &Flow,
    kind: Kind,
    component: &flow::Component,
    error: &tremor_pdk::Error,
) -> flow::Diagnostic {
    let named = kind.named(&component.name.value);
    let why = error.to_string();
    flow.error(component.config.span_for_message(&why), format!("{named}: {why}"))
}

impl Resolver for Components {
    fn find(&self, kind: Kind, name: &str) -> Lookup {
        let known = |schema| Lookup::Known { schema };
        if let Some(built_in) = BuiltIn::find(kind, name) {
            return known(built_in.config_schema());
        }
        match self.registry.find(kind.as_str(), name) {
            Ok(None) => Lookup::Unknown,
            Err(error) => Lookup::Unusable(error.to_string()),
            Ok(Some(library)) => {
                let schema = library
                    .check(self.policy)
                    .and_then(|()| self.describer.config_schema(library, kind.as_str(), name));
                schema.map_or_else(|error| Lookup::Unusable(error.to_string()), known)
            }
        }
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        let plugins = self.registry.names(kind.as_str());
        built_in_names(kind)
            .map(str::to_owned)
            .chain(plugins.into_iter().map(str::to_owned))
            .collect()
    }

    fn searched(&self) -> Vec<PathBuf> {
        self.registry.searched().to_vec()
    }

    fn ports(&self, flow: &Flow, operator: &str, config: &Config) -> Vec<String> {
        // An invalid configuration is reported elsewhere, when it is checked.
        self.ask(flow, Kind::Operator, operator, config).unwrap_or_default().ports
    }

    fn sides(&self, flow: &Flow, connector: &str, config: &Config) -> Option<Sides> {
        self.library(Kind::Connector, connector)?;
        let info = self.ask(flow, Kind::Connector, connector, config).ok()?;
        Some(Sides::new(info.has_source, info.has_sink))
    }

    fn check(&self, flow: &Flow, kind: Kind, name: &str, config: &Config) -> Result<()> {
        self.ask(flow, kind, name, config).map(drop)
    }

    fn check_compatibility(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        self.codec_of(flow, connector)?;
        self.check_isolation(flow, connector)?;
        match self.find(Kind::Connector, &connector.component.name.value) {
            Lookup::Known { schema: Some(schema) } => positions::check(flow, connector, &schema),
            _ => Ok(()),
        }
    }

    fn all_fit(&self, configurations: &[(&Config, &Config)]) -> bool {
        self.are_known_to_fit(configurations) || self.describer.all_fit(configurations)
    }
}

/// A resolver that accepts any connector type.
struct WithoutConnectors<'c>(&'c Components);

impl Resolver for WithoutConnectors<'_> {
    fn find(&self, kind: Kind, name: &str) -> Lookup {
        match kind {
            Kind::Connector => Lookup::Known { schema: None },
            _ => Resolver::find(self.0, kind, name),
        }
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.0.names(kind)
    }

    fn searched(&self) -> Vec<PathBuf> {
        self.0.searched()
    }

    fn ports(&self, flow: &Flow, operator: &str, config: &Config) -> Vec<String> {
        self.0.ports(flow, operator, config)
    }

    fn check(&self, flow: &Flow, kind: Kind, name: &str, config: &Config) -> Result<()> {
        match kind {
            Kind::Connector => Ok(()),
            _ => Resolver::check(self.0, flow, kind, name, config),
        }
    }

    fn check_compatibility(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        self.0.check_compatibility(flow, connector)
    }

    fn all_fit(&self, configurations: &[(&Config, &Config)]) -> bool {
        self.0.all_fit(configurations)
    }
}
