//! The root module: what the runtime finds in a library once it has been checked and loaded.

// What abi_stable's macros generate.
#![allow(clippy::expl_impl_clone_on_copy, clippy::cast_ptr_alignment)]

use abi_stable::{
    StableAbi, declare_root_module_statics,
    library::RootModule,
    package_version_strings,
    sabi_types::VersionStrings,
    std_types::{RResult, RStr, RString, RVec},
};

use crate::{
    component::{RawCodecBox, RawOperatorBox, RawPostprocessorBox, RawPreprocessorBox},
    connector::RawConnectorBox,
    error::PluginError,
    host::HostHandle,
    value::Value,
    version::AbiVersion,
};

/// What kind of component an artefact is. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, StableAbi)]
pub struct ArtefactKind(pub u16);

impl ArtefactKind {
    /// Talks to the world: a source, a sink, or both.
    pub const CONNECTOR: Self = Self(0);
    /// Turns bytes into values and back.
    pub const CODEC: Self = Self(1);
    /// Cuts and transforms bytes before the codec.
    pub const PREPROCESSOR: Self = Self(2);
    /// Frames and transforms bytes after the codec.
    pub const POSTPROCESSOR: Self = Self(3);
    /// Transforms events.
    pub const OPERATOR: Self = Self(4);
    /// Reserved.
    pub const FUNCTION: Self = Self(5);

    /// The kind in the words of metadata and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CONNECTOR => "connector",
            Self::CODEC => "codec",
            Self::PREPROCESSOR => "preprocessor",
            Self::POSTPROCESSOR => "postprocessor",
            Self::OPERATOR => "operator",
            Self::FUNCTION => "function",
            _ => "unknown",
        }
    }
}

/// One component that a library offers.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ArtefactRef)))]
#[sabi(missing_field(option))]
pub struct Artefact {
    /// What it is.
    pub kind: ArtefactKind,
    /// The `type` that flow files name it by.
    pub name: RStr<'static>,
    /// The JSON Schema of its configuration, as JSON text.
    pub config_schema: extern "C" fn() -> RString,
    /// Makes a connector: its name in the flow, its configuration, its handle to the host. An
    /// artefact of another kind answers that this is unsupported.
    #[sabi(last_prefix_field)]
    pub create_connector: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawConnectorBox, PluginError>,
    /// How to make an instance of an artefact that is no connector.
    pub constructors: ConstructorsRef,
}

/// How to make an instance of an artefact that is no connector: from the name in the flow of the pipeline
/// or the connector that it is part of, its configuration, and its handle to the host. Those that are
/// not of the artefact's kind answer that this is unsupported.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ConstructorsRef)))]
#[sabi(missing_field(option))]
pub struct Constructors {
    /// Makes an operator.
    pub operator: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawOperatorBox, PluginError>,
    /// Makes a codec.
    pub codec:
        extern "C" fn(RStr<'_>, &Value<'static>, HostHandle) -> RResult<RawCodecBox, PluginError>,
    /// Makes a preprocessor.
    pub preprocessor: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawPreprocessorBox, PluginError>,
    /// Makes a postprocessor.
    #[sabi(last_prefix_field)]
    pub postprocessor: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawPostprocessorBox, PluginError>,
}

/// The root module of a plugin library.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef)))]
#[sabi(missing_field(panic))]
pub struct PluginModule {
    /// The ABI that the plugin was built for.
    pub abi_version: AbiVersion,
    /// What it offers.
    #[sabi(last_prefix_field)]
    pub artefacts: extern "C" fn() -> RVec<ArtefactRef>,
}

impl RootModule for PluginModuleRef {
    // Never loaded through abi_stable's own loader, which caches the first library for good.
    declare_root_module_statics! {PluginModuleRef}
    const BASE_NAME: &'static str = "tremor_plugin";
    const NAME: &'static str = "tremor_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
