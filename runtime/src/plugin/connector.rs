//! Connectors of plugins, loaded or linked into this program, behind plain Rust types.

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

/// Properties of an instance that depend on its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// Output ports of an operator other than `out` and `err`.
    pub ports: Vec<String>,
    /// `true` for a connector that has a source.
    pub has_source: bool,
    /// `true` for a connector that has a sink.
    pub has_sink: bool,
}

/// Factory of the instances of one connector of a library.
#[derive(Clone)]
pub struct ConnectorFactory(Make);

#[derive(Clone)]
enum Make {
    Loaded { plugin: Box<Plugin>, artefact: ArtefactRef },
    Linked(LinkedComponent),
}

impl ConnectorFactory {
    /// Loads the library, unless it is linked, and looks up the connector.
    ///
    /// # Errors
    /// Errors of [`load`](super::load()), and kind [`UnknownArtefact`](super::ErrorKind::UnknownArtefact).
    pub fn load(library: &Library, name: &str, policy: Policy) -> Result<Self, Error> {
        if let Some(linked) = library.linked_component("connector", name) {
            return Ok(Self(Make::Linked(linked)));
        }
        let plugin = load_found(library, policy)?;
        let artefact = plugin.artefact("connector", name)?;
        Ok(Self(Make::Loaded { plugin: Box::new(plugin), artefact }))
    }

    /// Returns the plugin of the connector, or `None` if the connector is linked.
    pub fn plugin(&self) -> Option<&Plugin> {
        match &self.0 {
            Make::Loaded { plugin, .. } => Some(plugin),
            Make::Linked(_) => None,
        }
    }

    /// Creates an instance. Its name is the one that `host` returns.
    ///
    /// # Errors
    /// Errors of the connector's constructor, usually of kind configuration; kind panicked if it panicked; kind
    /// internal if the properties that the connector reports are invalid.
    pub fn create(
        &self,
        config: &impl Serialize,
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
                make(host.name(), &to_value(config)?, host.handle())
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

/// Creates an instance of a component and drops it, to check whether a configuration is valid.
///
/// `kind` is the name of the kind in metadata. Relative paths are relative to `folder`.
///
/// # Errors
/// Outer: errors of loading the library. Inner: errors of the constructor.
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
    let created = ConnectorFactory::load(library, name, policy)?.create(config, &host);
    Ok(created.and_then(|connector| {
        host.was_respected()?;
        let sides = connector.sides();
        let (has_source, has_sink) = (sides.has_source(), sides.has_sink());
        Ok(InstanceInfo { has_source, has_sink, ..InstanceInfo::default() })
    }))
}

/// Returns the error for a linked component of another kind. It cannot occur, because linked components are looked up
/// by their kind.
pub(super) fn other_kind(linked: &LinkedComponent) -> PluginError {
    PluginError::internal(format!("cannot create `{}`: it is a {}", linked.name, linked.kind))
}

/// Converts a configuration to the value that plugins receive.
pub(super) fn to_value(config: &impl Serialize) -> Result<Value<'static>> {
    value::to_value(config).map_err(|error| PluginError::configuration(format!("config: {error}")))
}

fn codec_requirement(reported: abi::CodecRequirement) -> Result<CodecRequirement> {
    match reported.need {
        CodecNeed::STRUCTURED => Ok(CodecRequirement::Structured),
        CodecNeed::REQUIRED => Ok(CodecRequirement::Required),
        CodecNeed::OPTIONAL => Ok(CodecRequirement::Optional(reported.default.as_str())),
        CodecNeed(unknown) => {
            Err(PluginError::internal(format!("invalid codec requirement {unknown} of the plugin")))
        }
    }
}

/// Instance of a loaded connector.
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
