//! Connectors of plugins, in plain Rust: loaded, or linked into this program.

use serde::{Deserialize, Serialize};
use tremor_abi::{
    connector::{self as abi, CodecNeed, Hook, RawConnectorBox, RawHalves},
    module::{ArtefactKind, ArtefactRef},
    value,
};
use tremor_pdk::{Error as PluginError, Halves, Result, Sides, Value};

use super::{
    ComponentFactory, Error, HostContext, InstanceHost, Library, Plugin, Policy,
    contain::call,
    load::load_found,
    stream::{LoadedSink, LoadedSource},
};
use crate::{
    dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSink, DynSource},
    linked::{self, LinkedComponent},
};

/// Properties of an instance that follow from its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// Output ports of an operator, besides `out` and `err`.
    pub ports: Vec<String>,
    /// `true` for a connector that has a source.
    pub has_source: bool,
    /// `true` for a connector that has a sink.
    pub has_sink: bool,
}

/// Makes instances of one connector of one library.
#[derive(Clone)]
pub struct ConnectorFactory(Make);

#[derive(Clone)]
enum Make {
    Loaded { plugin: Box<Plugin>, artefact: ArtefactRef },
    Linked(LinkedComponent),
}

impl ConnectorFactory {
    /// Loads the library, if it is not linked, and looks the connector up in it.
    ///
    /// # Errors
    /// Those of [`load`](super::load()), and kind [`UnknownArtefact`](super::ErrorKind::UnknownArtefact).
    pub fn load(library: &Library, name: &str, policy: Policy) -> Result<Self, Error> {
        if let Some(linked) = library.linked_component("connector", name) {
            return Ok(Self(Make::Linked(linked)));
        }
        let plugin = load_found(library, policy)?;
        let artefact = plugin.artefact("connector", name)?;
        Ok(Self(Make::Loaded { plugin: Box::new(plugin), artefact }))
    }

    /// The plugin that the connector belongs to; none for one that is linked.
    pub fn plugin(&self) -> Option<&Plugin> {
        match &self.0 {
            Make::Loaded { plugin, .. } => Some(plugin),
            Make::Linked(_) => None,
        }
    }

    /// Makes an instance. It is called as its host's component is.
    ///
    /// # Errors
    /// Those of the connector's constructor, usually kind configuration; kind panicked where it
    /// panicked; kind internal where it says about itself what cannot be.
    pub fn create(
        &self,
        config: &serde_json::Value,
        host: &impl InstanceHost,
    ) -> Result<Box<dyn DynConnector>> {
        match &self.0 {
            Make::Loaded { artefact, .. } => {
                let (create, id) = (artefact.create_connector(), host.name().into());
                let raw = create(id, &to_value(config)?, host.handle()).into_result()?;
                let codec = codec_requirement(raw.codec_requirement())?;
                let sides = raw.sides().into_result()?;
                Ok(Box::new(LoadedConnector { raw, codec, sides }))
            }
            Make::Linked(LinkedComponent { make: linked::Make::Connector(make), .. }) => {
                make(host.name(), config, host.handle())
            }
            Make::Linked(other) => Err(other_kind(other)),
        }
    }
}

impl std::fmt::Debug for ConnectorFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ConnectorFactory");
        match &self.0 {
            Make::Loaded { plugin, artefact } => {
                shown.field("name", &artefact.name().as_str()).field("plugin", plugin).finish()
            }
            Make::Linked(linked) => shown.field("linked", linked).finish(),
        }
    }
}

/// Makes an instance of a component of any kind and drops it, to see whether a configuration is good:
/// `kind` in the words of metadata. Relative paths start from `folder`.
///
/// # Errors
/// Those of loading the library; within, those of the constructor.
pub(super) fn check(
    library: &Library,
    (kind, name): (&str, &str),
    config: &serde_json::Value,
    folder: &str,
    policy: Policy,
) -> Result<Result<InstanceInfo>, Error> {
    let host = HostContext::checking(folder);
    if kind != ArtefactKind::CONNECTOR.as_str() {
        let factory = ComponentFactory::load(library, kind, name, policy)?;
        return Ok(factory.check(kind, config, &host));
    }
    let made = ConnectorFactory::load(library, name, policy)?.create(config, &host);
    Ok(made.and_then(|connector| {
        host.was_respected()?;
        let sides = connector.sides();
        let (has_source, has_sink) = (sides.has_source(), sides.has_sink());
        Ok(InstanceInfo { has_source, has_sink, ..InstanceInfo::default() })
    }))
}

/// What is linked says of itself what it is, so that this never happens.
pub(super) fn other_kind(linked: &LinkedComponent) -> PluginError {
    PluginError::internal(format!("`{}` is a {}, and nothing else", linked.name, linked.kind))
}

/// A configuration as plugins get it.
pub(super) fn to_value(config: &serde_json::Value) -> Result<Value<'static>> {
    value::to_value(config).map_err(|error| PluginError::configuration(format!("config: {error}")))
}

fn codec_requirement(says: abi::CodecRequirement) -> Result<CodecRequirement> {
    match says.need {
        CodecNeed::STRUCTURED => Ok(CodecRequirement::Structured),
        CodecNeed::REQUIRED => Ok(CodecRequirement::Required),
        CodecNeed::OPTIONAL => Ok(CodecRequirement::Optional(says.default.as_str())),
        CodecNeed(unknown) => Err(PluginError::internal(format!(
            "the plugin states an unknown need for codecs, {unknown}"
        ))),
    }
}

/// An instance of a loaded connector.
struct LoadedConnector {
    raw: RawConnectorBox,
    codec: CodecRequirement,
    sides: Sides,
}

impl DynConnector for LoadedConnector {
    fn codec_requirement(&self) -> CodecRequirement {
        self.codec
    }

    fn sides(&self) -> Sides {
        self.sides
    }

    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        let connected = self.raw.connect(wanted);
        Box::pin(async {
            let RawHalves { source, sink } = call("connect", connected).await?;
            let source_of = |raw| Box::new(LoadedSource::new(raw)) as Box<dyn DynSource>;
            let sink_of = |raw| Box::new(LoadedSink::new(raw)) as Box<dyn DynSink>;
            Ok(Halves {
                source: source.into_option().map(source_of),
                sink: sink.into_option().map(sink_of),
            })
        })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        Box::pin(call(hook.as_str(), self.raw.hook(hook)))
    }
}
