//! All components that flows can name: those of plugins, and those that are built in.

mod about;
mod ahead;
mod built_in;
mod codec;
mod parts;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Mutex,
};

use serde_json::Value as Config;
use tremor_pdk::{Result, Sides};

#[cfg(test)]
pub(crate) use self::built_in::factory;
pub use self::built_in::{built_in_names, codec, operator};
pub(crate) use self::parts::FlowParts;
use self::{about::about, built_in::BuiltIn, codec::Chosen};
use crate::{
    flow::{self, Described, Flow, Kind, Lookup, Resolver},
    linked::LinkedPlugin,
    lock::lock,
    plugin::{
        self, ArtefactMetadata, Describer, InstanceInfo, Library, Policy, Problem, Registry,
        SearchPath,
    },
};

/// What flows are checked against and made from. What is built in comes before what plugins offer
/// under the same name.
pub struct Components {
    registry: Registry,
    describer: Describer,
    policy: Policy,
    /// What plugins said of configurations, so that none is asked twice.
    said: Mutex<HashMap<Asked, Said>>,
    /// Configurations that fit their schemas: hashes of both.
    fitting: Mutex<HashSet<u128>>,
}

/// A library, the folder of a flow, a kind, a name and a configuration.
type Asked = (PathBuf, PathBuf, Kind, String, String);
/// The properties of an instance, or what is wrong with its configuration.
type Said = Result<InstanceInfo>;

impl Components {
    /// Looks for plugins and runs none of them. Returns the libraries that cannot be used as well: they
    /// matter only to flows that name them.
    pub fn find(
        paths: &[SearchPath],
        describer: Describer,
        policy: Policy,
    ) -> (Self, Vec<Problem>) {
        let (registry, problems) = Registry::scan(paths);
        (Self::new(registry, describer, policy), problems)
    }

    /// Plugins that are linked into this program, and no others.
    ///
    /// # Errors
    /// Those of [`Library::linked`].
    pub fn linked(
        plugins: impl IntoIterator<Item = LinkedPlugin>,
        policy: Policy,
    ) -> Result<Self, plugin::Error> {
        let registry = Registry::of(Library::linked(plugins)?);
        let describer = Describer::new(policy);
        Ok(Self::new(registry, describer, policy))
    }

    fn new(registry: Registry, describer: Describer, policy: Policy) -> Self {
        Self { registry, describer, policy, said: Mutex::default(), fitting: Mutex::default() }
    }

    /// Checks everything in a flow that depends on components: types, configurations, codecs.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self, flow: &Flow) -> Result<(), flow::Error> {
        flow::check(flow, self)
    }

    /// The same components, but for connectors: any name is taken for that of one. For flows that run
    /// without them.
    pub fn without_connectors(&self) -> impl Resolver {
        WithoutConnectors(self)
    }

    /// Has an instance made, to see whether a configuration is good.
    fn ask(&self, flow: &Flow, kind: Kind, name: &str, config: &Config) -> Said {
        if let Some(built_in) = BuiltIn::find(kind, name) {
            return built_in.check(config);
        }
        let folder = flow.folder();
        let Some(library) = self.library(kind, name) else { return Ok(InstanceInfo::default()) };
        let asked = Self::asked(library, flow, kind, name, config);
        let mut said = lock(&self.said);
        let ask = || Ok(self.describer.check(library, (kind.as_str(), name), config, folder)?);
        said.entry(asked).or_insert_with(ask).clone()
    }

    fn asked(library: &Library, flow: &Flow, kind: Kind, name: &str, config: &Config) -> Asked {
        let (path, folder) = (library.path().to_owned(), flow.folder().to_owned());
        (path, folder, kind, name.to_owned(), config.to_string())
    }

    /// All that flows can name, with a JSON Schema of each configuration; and what is wrong with those whose
    /// configuration is not known.
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
                let said = artefact.map(|artefact| artefact.description.clone());
                let said = said.filter(|said| !said.is_empty());
                let description = said.unwrap_or_else(|| about(kind, &name, config.as_ref()));
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

    /// The libraries that a flow uses, each once.
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

    /// The library that offers a component, where none is built in under that name.
    fn library(&self, kind: Kind, name: &str) -> Option<&Library> {
        if BuiltIn::find(kind, name).is_some() {
            return None;
        }
        self.registry.find(kind.as_str(), name).ok().flatten()
    }

    /// What that library says of it.
    fn artefact(&self, kind: Kind, name: &str) -> Option<&ArtefactMetadata> {
        self.library(kind, name)?.artefact(kind.as_str(), name)
    }

    /// The codec of a connector: what it needs, as its metadata says, and what the flow gives it.
    fn codec_of<'f>(
        &self,
        flow: &Flow,
        connector: &'f flow::Connector,
    ) -> Result<Option<Chosen<'f>>, flow::Diagnostic> {
        let (name, kind) = (&connector.name.value, &connector.component.name);
        let given = match &connector.codec {
            Some(component) if BuiltIn::find(Kind::Codec, &component.name.value).is_some() => {
                let made = codec(&component.name.value, component.config.value());
                Some(Chosen::BuiltIn(made.map_err(|it| wrong(flow, Kind::Codec, component, &it))?))
            }
            Some(component) => Some(Chosen::Plugin(component)),
            None => None,
        };
        let artefact = self.artefact(Kind::Connector, &kind.value);
        let need = artefact.and_then(|artefact| artefact.codec.as_deref());
        match (need, given) {
            (Some("structured"), Some(_)) => {
                let at = connector.codec.as_ref().map_or(kind.at, |codec| codec.name.at);
                let message = format!(
                    "connector `{name}` has a codec, but `{kind}` takes none: its events are values",
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
                let made = codec(default.unwrap_or_default(), &Config::Null);
                made.map(|codec| Some(Chosen::BuiltIn(codec))).map_err(|error| {
                    let message = format!("the default codec of `{}`: {error}", kind.value);
                    flow.error(kind.at, message)
                })
            }
            (_, given) => Ok(given),
        }
    }
}

/// What a component says of its configuration, at its place in the flow.
fn wrong(
    flow: &Flow,
    kind: Kind,
    component: &flow::Component,
    error: &tremor_pdk::Error,
) -> flow::Diagnostic {
    let named = kind.named(&component.name.value);
    let why = error.to_string();
    flow.error(component.config.place_of(&why), format!("{named}: {why}"))
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
        // A configuration that is wrong is reported where it is checked.
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

    fn go_together(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        self.codec_of(flow, connector).map(drop)
    }

    fn all_fit(&self, configurations: &[(&Config, &Config)]) -> bool {
        self.are_known_to_fit(configurations) || self.describer.all_fit(configurations)
    }
}

/// Knows all components, and takes any name for a connector's.
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

    fn go_together(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        self.0.go_together(flow, connector)
    }

    fn all_fit(&self, configurations: &[(&Config, &Config)]) -> bool {
        self.0.all_fit(configurations)
    }
}
