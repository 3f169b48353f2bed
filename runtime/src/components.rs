//! All components that flows can name: those of plugins, and those that are built in.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value as Config;
use tremor_pdk::CodecRequirement;

use crate::{
    codec::{self, Codec},
    engine::{Connection, ConnectorType},
    flow::{self, Flow, Kind, Lookup, Resolver},
    operator,
    plugin::{
        ArtefactMetadata, ConnectorFactory, Describer, HostContext, HostServices, Library, Policy,
        Problem, Registry, SearchPath,
    },
    processor,
    run::Stopper,
};

/// The kind of connectors in the words of metadata.
const CONNECTOR: &str = "connector";

/// What flows are checked against and made from.
pub struct Components {
    registry: Registry,
    describer: Describer,
    policy: Policy,
}

impl Components {
    /// Looks for plugins and runs none of them. What it stumbles over it returns: that hurts only
    /// flows that use it.
    pub fn find(
        paths: &[SearchPath],
        describer: Describer,
        policy: Policy,
    ) -> (Self, Vec<Problem>) {
        let (registry, problems) = Registry::scan(paths);
        (Self { registry, describer, policy }, problems)
    }

    /// Checks everything in a flow that depends on components: types, configurations, codecs.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self, flow: &Flow) -> Result<(), flow::Error> {
        flow::check(flow, self)?;
        let mut wrong = Vec::new();
        for connector in &flow.spec.connectors {
            if let Err(diagnostic) = self.codec_of(flow, connector) {
                wrong.push(diagnostic);
            }
            let component = &connector.component;
            let validate = |library: &Library| {
                let (name, config) = (&component.name.value, component.config.value());
                self.describer.validate(library, name, config)
            };
            if let Some(Err(error)) = self.library(&component.name.value).map(validate) {
                wrong.push(flow.error(component.config.at(), error.to_string()));
            }
            wrong.extend(processors_of(flow, connector));
        }
        for pipeline in &flow.spec.pipelines {
            for component in &pipeline.operators {
                let made = operator::operator(&component.name.value, component.config.value());
                if let Err(error) = made {
                    wrong.push(flow.error(component.config.at(), error));
                }
            }
        }
        flow::Error::of(wrong)
    }

    fn library(&self, connector: &str) -> Option<&Library> {
        self.registry.find(CONNECTOR, connector).ok().flatten()
    }

    /// The codec of a connector: what it needs, as its metadata says, and what the flow gives it.
    fn codec_of(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
    ) -> Result<Option<Codec>, flow::Diagnostic> {
        let (name, kind) = (&connector.name.value, &connector.component.name);
        let given = match &connector.codec {
            Some(codec) => {
                let made = codec::lookup(&codec.name.value, codec.config.value());
                Some(made.map_err(|error| flow.error(codec.config.at(), error.to_string()))?)
            }
            None => None,
        };
        let library = self.library(&kind.value);
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
                let help = format!("add `codec:` with one of {}", codec::names().join(", "));
                Err(flow.error(connector.name.at, message).help(help))
            }
            (Some("optional"), None) => {
                let default = artefact.and_then(|artefact| artefact.default_codec.as_deref());
                codec::lookup(default.unwrap_or_default(), &Config::Null).map(Some).map_err(
                    |error| {
                        flow.error(
                            kind.at,
                            format!("the default codec of `{}`: {error}", kind.value),
                        )
                    },
                )
            }
            (_, given) => Ok(given),
        }
    }

    /// Loads a connector's library and says how to make instances of it.
    ///
    /// # Errors
    /// What is wrong with the library or the codec, at its place in the flow.
    pub(crate) fn connector(
        &self,
        flow: &Flow,
        connector: &flow::Connector,
        stopper: &Stopper,
    ) -> Result<ConnectorType, flow::Diagnostic> {
        let kind = &connector.component.name;
        let codec = self.codec_of(flow, connector)?;
        let unusable = |error: String| flow.error(kind.at, error);
        let library = self
            .registry
            .find(CONNECTOR, &kind.value)
            .map_err(|error| unusable(error.to_string()))?
            .ok_or_else(|| unusable(format!("there is no connector `{}`", kind.value)))?;
        let factory = ConnectorFactory::load(library, &kind.value, self.policy)
            .map_err(|error| unusable(error.to_string()))?;
        let name = connector.name.value.clone();
        let config = connector.component.config.value().clone();
        let folder = flow.folder().to_string_lossy().into_owned();
        let stopper = stopper.clone();
        let make = move |connection: &Arc<Connection>| {
            let services = Services { connection: connection.clone(), stopper: stopper.clone() };
            let host = HostContext::new(&*name, &*folder, services);
            let made = factory.create(&name, &config, host)?;
            agree(made.codec_requirement(), codec.is_some())?;
            Ok(made)
        };
        Ok(ConnectorType { codec, make: Box::new(make) })
    }
}

/// A connector that says one thing in its metadata and another when asked would lose events.
fn agree(requirement: CodecRequirement, has_codec: bool) -> tremor_pdk::Result<()> {
    let fits = match requirement {
        CodecRequirement::Required | CodecRequirement::Optional(_) => has_codec,
        CodecRequirement::Structured => !has_codec,
    };
    if fits {
        return Ok(());
    }
    Err(tremor_pdk::Error::configuration(format_args!(
        "the connector's codec requirement is {requirement:?}; its flow {} one, and its metadata \
         does not tell",
        if has_codec { "gives it" } else { "does not give it" }
    )))
}

fn artefact<'l>(library: &'l Library, name: &str) -> Option<&'l ArtefactMetadata> {
    let artefacts = &library.metadata().artefacts;
    artefacts.iter().find(|artefact| artefact.kind == CONNECTOR && artefact.name == name)
}

/// What is wrong with the processors of a connector beyond what their schemas tell.
fn processors_of<'f>(
    flow: &'f Flow,
    connector: &'f flow::Connector,
) -> impl Iterator<Item = flow::Diagnostic> + 'f {
    let pre = connector.preprocessors.iter().filter_map(|component| {
        let made = processor::preprocessor(&component.name.value, component.config.value());
        Some((component, made.err()?))
    });
    let post = connector.postprocessors.iter().filter_map(|component| {
        let made = processor::postprocessor(&component.name.value, component.config.value());
        Some((component, made.err()?))
    });
    pre.chain(post).map(|(component, error)| flow.error(component.config.at(), error))
}

/// What a connector's instance may ask of its flow.
struct Services {
    connection: Arc<Connection>,
    stopper: Stopper,
}

impl HostServices for Services {
    fn connection_lost(&self) {
        self.connection.break_off();
    }

    fn request_stop(&self, graceful: bool, reason: &str) {
        tracing::info!(reason, graceful, "a component ends the run");
        if graceful {
            self.stopper.drain();
        } else {
            self.stopper.stop();
        }
    }
}

impl Resolver for Components {
    fn find(&self, kind: Kind, name: &str) -> Lookup {
        let known = |schema| Lookup::Known { schema };
        match kind {
            Kind::Connector => match self.registry.find(CONNECTOR, name) {
                Ok(None) => Lookup::Unknown,
                Err(error) => Lookup::Unusable(error.to_string()),
                Ok(Some(library)) => {
                    let schema = library
                        .check(self.policy)
                        .and_then(|()| self.describer.config_schema(library, name));
                    schema.map_or_else(|error| Lookup::Unusable(error.to_string()), known)
                }
            },
            Kind::Codec if codec::names().contains(&name) => known(None),
            Kind::Preprocessor if processor::PREPROCESSORS.contains(&name) => {
                known(processor::preprocessor_schema(name))
            }
            Kind::Postprocessor if processor::POSTPROCESSORS.contains(&name) => {
                known(processor::postprocessor_schema(name))
            }
            Kind::Operator if operator::OPERATORS.contains(&name) => known(operator::schema(name)),
            _ => Lookup::Unknown,
        }
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        let names = match kind {
            Kind::Connector => self.registry.names(CONNECTOR),
            Kind::Codec => codec::names().to_vec(),
            Kind::Preprocessor => processor::PREPROCESSORS.to_vec(),
            Kind::Postprocessor => processor::POSTPROCESSORS.to_vec(),
            Kind::Operator => operator::OPERATORS.to_vec(),
        };
        names.into_iter().map(str::to_owned).collect()
    }

    fn searched(&self) -> Vec<PathBuf> {
        self.registry.searched().to_vec()
    }
}
