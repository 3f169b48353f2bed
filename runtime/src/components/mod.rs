//! All components that flows can name: those of plugins, and those that are built in.

mod parts;

use std::path::PathBuf;

use serde_json::Value as Config;

pub(crate) use self::parts::FlowParts;
use crate::{
    codec::{self, Codec},
    flow::{self, Flow, Kind, Lookup, Resolver},
    operator,
    plugin::{ArtefactMetadata, Describer, Library, Policy, Problem, Registry, SearchPath},
    processor,
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
