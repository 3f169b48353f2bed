//! All components that flows can name: those of plugins, and those that are built in.

mod codec;
mod parts;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use serde_json::Value as Config;
use tremor_pdk::{abi::module::ArtefactKind, linked::LinkedPlugin};

use self::codec::Chosen;
pub(crate) use self::parts::FlowParts;
use crate::{
    flow::{self, Flow, Kind, Lookup, Resolver},
    operator,
    plugin::{self, ArtefactMetadata, Describer, Library, Policy, Problem, Registry, SearchPath},
    processor,
};

/// The kind of connectors in the words of metadata.
const CONNECTOR: &str = ArtefactKind::CONNECTOR.as_str();

/// The kind of artefact that offers this kind of component, in the words of metadata.
fn artefact_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Connector => CONNECTOR,
        Kind::Codec => ArtefactKind::CODEC.as_str(),
        Kind::Preprocessor => ArtefactKind::PREPROCESSOR.as_str(),
        Kind::Postprocessor => ArtefactKind::POSTPROCESSOR.as_str(),
        Kind::Operator => ArtefactKind::OPERATOR.as_str(),
    }
}

/// What flows are checked against and made from. What is built in comes before what plugins offer
/// under the same name.
pub struct Components {
    registry: Registry,
    describer: Describer,
    policy: Policy,
    /// What plugins said of configurations, so that none is asked twice.
    said: Mutex<HashMap<Asked, Said>>,
}

/// A library, a kind, a name and a configuration.
type Asked = (PathBuf, Kind, String, String);
/// The ports of an operator, or what is wrong.
type Said = Result<Vec<String>, String>;

impl Components {
    /// Looks for plugins and runs none of them. What it stumbles over it returns: that hurts only
    /// flows that use it.
    pub fn find(
        paths: &[SearchPath],
        describer: Describer,
        policy: Policy,
    ) -> (Self, Vec<Problem>) {
        let (registry, problems) = Registry::scan(paths);
        (Self { registry, describer, policy, said: Mutex::default() }, problems)
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
        Ok(Self { registry, describer, policy, said: Mutex::default() })
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

    /// Asks a plugin whether a configuration is good, and for the ports that an operator has then.
    fn ask(&self, kind: Kind, name: &str, config: &Config) -> Said {
        let Some(library) = self.library(kind, name) else { return Ok(Vec::new()) };
        let asked = (library.path().to_owned(), kind, name.to_owned(), config.to_string());
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = || {
            let ports = self.describer.validate(library, artefact_kind(kind), name, config);
            ports.map_err(|error| error.to_string())
        };
        said.entry(asked).or_insert_with(ask).clone()
    }

    /// The libraries that a flow uses, each once.
    pub fn libraries(&self, flow: &Flow) -> Vec<&Library> {
        let mut libraries: Vec<&Library> = Vec::new();
        let mut add = |kind, component: &flow::Component| {
            let library = self.library(kind, &component.name.value);
            let library =
                library.filter(|new| libraries.iter().all(|old| old.path() != new.path()));
            libraries.extend(library);
        };
        for connector in &flow.spec.connectors {
            add(Kind::Connector, &connector.component);
            connector.codec.iter().for_each(|codec| add(Kind::Codec, codec));
            connector.preprocessors.iter().for_each(|one| add(Kind::Preprocessor, one));
            connector.postprocessors.iter().for_each(|one| add(Kind::Postprocessor, one));
        }
        let operators = flow.spec.pipelines.iter().flat_map(|pipeline| &pipeline.operators);
        operators.for_each(|operator| add(Kind::Operator, operator));
        libraries
    }

    /// The library that offers a component, where none is built in under that name.
    fn library(&self, kind: Kind, name: &str) -> Option<&Library> {
        if is_built_in(kind, name) {
            return None;
        }
        self.registry.find(artefact_kind(kind), name).ok().flatten()
    }

    /// The codec of a connector: what it needs, as its metadata says, and what the flow gives it.
    fn codec_of<'f>(
        &self,
        flow: &Flow,
        connector: &'f flow::Connector,
    ) -> Result<Option<Chosen<'f>>, flow::Diagnostic> {
        let (name, kind) = (&connector.name.value, &connector.component.name);
        let given = match &connector.codec {
            Some(component) if is_built_in(Kind::Codec, &component.name.value) => {
                let made = crate::codec::lookup(&component.name.value, component.config.value());
                let wrong = |error| flow.error(component.config.at(), format!("{error}"));
                Some(Chosen::BuiltIn(made.map_err(wrong)?))
            }
            Some(component) => Some(Chosen::Plugin(component)),
            None => None,
        };
        let library = self.library(Kind::Connector, &kind.value);
        let artefact = library.and_then(|library| artefact(library, &kind.value));
        let need = artefact.and_then(|artefact| artefact.codec.as_deref());
        match (need, given) {
            (Some("structured"), Some(_)) => {
                let codec = connector.codec.as_ref().map_or(kind.at, |codec| codec.name.at);
                let message = format!(
                    "connector `{name}` has a codec, but `{kind}` takes none: its events are values",
                    kind = kind.value
                );
                Err(flow.error(codec, message).help("remove `codec`"))
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
                let made = crate::codec::lookup(default.unwrap_or_default(), &Config::Null);
                made.map(|codec| Some(Chosen::BuiltIn(codec))).map_err(|error| {
                    let message = format!("the default codec of `{}`: {error}", kind.value);
                    flow.error(kind.at, message)
                })
            }
            (_, given) => Ok(given),
        }
    }
}

fn artefact<'l>(library: &'l Library, name: &str) -> Option<&'l ArtefactMetadata> {
    let artefacts = &library.metadata().artefacts;
    artefacts.iter().find(|artefact| artefact.kind == CONNECTOR && artefact.name == name)
}

fn is_built_in(kind: Kind, name: &str) -> bool {
    built_in(kind).contains(&name)
}

fn built_in(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Connector => &[],
        Kind::Codec => crate::codec::names(),
        Kind::Preprocessor => processor::PREPROCESSORS,
        Kind::Postprocessor => processor::POSTPROCESSORS,
        Kind::Operator => operator::OPERATORS,
    }
}

impl Resolver for Components {
    fn find(&self, kind: Kind, name: &str) -> Lookup {
        let known = |schema| Lookup::Known { schema };
        if is_built_in(kind, name) {
            return known(match kind {
                Kind::Connector | Kind::Codec => None,
                Kind::Preprocessor => processor::preprocessor_schema(name),
                Kind::Postprocessor => processor::postprocessor_schema(name),
                Kind::Operator => operator::schema(name),
            });
        }
        match self.registry.find(artefact_kind(kind), name) {
            Ok(None) => Lookup::Unknown,
            Err(error) => Lookup::Unusable(error.to_string()),
            Ok(Some(library)) => {
                let schema = library.check(self.policy).and_then(|()| {
                    self.describer.config_schema(library, artefact_kind(kind), name)
                });
                schema.map_or_else(|error| Lookup::Unusable(error.to_string()), known)
            }
        }
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        let built_in = built_in(kind).iter().copied();
        built_in.chain(self.registry.names(artefact_kind(kind))).map(str::to_owned).collect()
    }

    fn searched(&self) -> Vec<PathBuf> {
        self.registry.searched().to_vec()
    }

    fn ports(&self, operator: &str, config: &Config) -> Vec<String> {
        let ports = if is_built_in(Kind::Operator, operator) {
            operator::ports(operator, config)
        } else {
            self.ask(Kind::Operator, operator, config)
        };
        // A configuration that is wrong is reported where it is checked.
        ports.unwrap_or_default()
    }

    fn validate(&self, kind: Kind, name: &str, config: &Config) -> Result<(), String> {
        if !is_built_in(kind, name) {
            return self.ask(kind, name, config).map(drop);
        }
        match kind {
            Kind::Connector => Ok(()),
            Kind::Codec => {
                crate::codec::lookup(name, config).map(drop).map_err(|error| error.to_string())
            }
            Kind::Preprocessor => processor::preprocessor(name, config).map(drop),
            Kind::Postprocessor => processor::postprocessor(name, config).map(drop),
            Kind::Operator => operator::operator(name, config).map(drop),
        }
    }

    fn go_together(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<(), flow::Diagnostic> {
        self.codec_of(flow, connector).map(drop)
    }

    fn all_fit(&self, configurations: &[(&Config, &Config)]) -> bool {
        self.describer.all_fit(configurations)
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

    fn ports(&self, operator: &str, config: &Config) -> Vec<String> {
        self.0.ports(operator, config)
    }

    fn validate(&self, kind: Kind, name: &str, config: &Config) -> Result<(), String> {
        match kind {
            Kind::Connector => Ok(()),
            _ => self.0.validate(kind, name, config),
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
