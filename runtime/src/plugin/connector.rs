//! Connectors of loaded plugins, in plain Rust.

use std::{future::Future, sync::Arc};

use tremor_pdk::{
    CodecRequirement, Error as PluginError, Result, Value,
    abi::{
        ByteBuffer, NodeBuffer,
        connector::{self as abi, CallResult, CodecNeed, RawConnectorBox},
        module::ArtefactRef,
    },
    dynamic::{BoxFuture, DynConnector, DynSink, DynSource},
};

use super::{
    Error, HostContext, Library, Plugin, Policy,
    contain::Contained,
    load,
    stream::{LoadedSink, LoadedSource},
};

/// Makes instances of one connector of one library.
#[derive(Clone)]
pub struct ConnectorFactory {
    plugin: Plugin,
    artefact: ArtefactRef,
}

impl ConnectorFactory {
    /// Loads the library and looks the connector up in it.
    ///
    /// # Errors
    /// Those of [`load`], and kind [`UnknownArtefact`](super::ErrorKind::UnknownArtefact).
    pub fn load(library: &Library, name: &str, policy: Policy) -> Result<Self, Error> {
        let plugin = load(library.path(), policy)?;
        let artefact = plugin.artefact("connector", name)?;
        Ok(Self { plugin, artefact })
    }

    /// The plugin that the connector belongs to.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Makes an instance: `id` is its name in the flow.
    ///
    /// # Errors
    /// Those of the connector's constructor, usually kind configuration; kind panicked where it
    /// panicked; kind internal where it says about itself what cannot be.
    pub fn create(
        &self,
        id: &str,
        config: &serde_json::Value,
        host: Arc<HostContext>,
    ) -> Result<Box<dyn DynConnector>> {
        let create = self.artefact.create_connector();
        let raw = create(id.into(), &to_value(config)?, host.handle()).into_result()?;
        let codec = codec_requirement(raw.codec_requirement())?;
        Ok(Box::new(LoadedConnector { raw, codec }))
    }
}

impl std::fmt::Debug for ConnectorFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectorFactory")
            .field("name", &self.artefact.name().as_str())
            .field("plugin", &self.plugin)
            .finish()
    }
}

/// A configuration as plugins get it.
pub(super) fn to_value(config: &serde_json::Value) -> Result<Value<'static>> {
    use tremor_pdk::{Document, abi::document};
    let (mut bytes, mut nodes) = (ByteBuffer::new(), NodeBuffer::new());
    let root = document::write(config, &mut bytes, &mut nodes)
        .map_err(|error| PluginError::configuration(format!("config: {error}")))?;
    Ok(Document::new(&bytes, &nodes).root(root).to_value())
}

fn codec_requirement(says: abi::CodecRequirement) -> Result<CodecRequirement> {
    match says.need {
        CodecNeed::STRUCTURED => Ok(CodecRequirement::Structured),
        CodecNeed::REQUIRED => Ok(CodecRequirement::Required),
        CodecNeed::OPTIONAL => Ok(CodecRequirement::Optional(says.default.as_str())),
        CodecNeed(unknown) => Err(PluginError::internal(format!(
            "the plugin has a need for codecs that is not known: {unknown}"
        ))),
    }
}

/// An instance of a loaded connector.
struct LoadedConnector {
    raw: RawConnectorBox,
    codec: CodecRequirement,
}

/// Waits for a call, and turns a panic that its callee did not catch into an error.
async fn call<T>(
    what: &'static str,
    call: impl Future<Output = CallResult<T>> + Unpin,
) -> Result<T> {
    Contained::new(what, call).await?.into_result()
}

macro_rules! forward {
    ($($method:ident,)*) => {
        $(fn $method(&mut self) -> BoxFuture<'_, Result<()>> {
            Box::pin(call(stringify!($method), self.raw.$method()))
        })*
    };
}

impl DynConnector for LoadedConnector {
    fn codec_requirement(&self) -> CodecRequirement {
        self.codec
    }

    fn connect(&mut self, attempt: u64) -> BoxFuture<'_, Result<bool>> {
        Box::pin(call("connect", self.raw.connect(attempt)))
    }

    fn create_source(&mut self) -> BoxFuture<'_, Result<Option<Box<dyn DynSource>>>> {
        let made = self.raw.create_source();
        Box::pin(async {
            let source = call("create_source", made).await?.into_option();
            Ok(source.map(|raw| Box::new(LoadedSource::new(raw)) as Box<dyn DynSource>))
        })
    }

    fn create_sink(&mut self) -> BoxFuture<'_, Result<Option<Box<dyn DynSink>>>> {
        let made = self.raw.create_sink();
        Box::pin(async {
            let sink = call("create_sink", made).await?.into_option();
            Ok(sink.map(|raw| Box::new(LoadedSink::new(raw)) as Box<dyn DynSink>))
        })
    }

    forward! {
        on_start,
        on_pause,
        on_resume,
        on_drain,
        on_stop,
        on_connection_lost,
        on_connection_established,
    }
}
