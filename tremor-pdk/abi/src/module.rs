//! The root module: the entry point that the runtime finds in a library after it has checked and loaded the library.

// The macros of abi_stable generate code that violates these lints.
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

/// The kind of a component. An open set.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, StableAbi)]
pub struct ArtefactKind(pub u16);

impl ArtefactKind {
    /// Connects to an external system, with a source, a sink or both.
    pub const CONNECTOR: Self = Self(0);
    /// Decodes bytes to values and encodes values to bytes.
    pub const CODEC: Self = Self(1);
    /// Splits and transforms bytes before the codec.
    pub const PREPROCESSOR: Self = Self(2);
    /// Frames and transforms bytes after the codec.
    pub const POSTPROCESSOR: Self = Self(3);
    /// Transforms events.
    pub const OPERATOR: Self = Self(4);
    /// Reserved: not used by any library.
    pub const FUNCTION: Self = Self(5);

    /// Returns the name of the kind that metadata and messages use.
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

/// A component that a library offers.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ArtefactRef)))]
#[sabi(missing_field(option))]
pub struct Artefact {
    /// Kind of the component.
    pub kind: ArtefactKind,
    /// The `type` by which flow files refer to the component.
    pub name: RStr<'static>,
    /// Returns the JSON Schema of the component's configuration, as JSON text.
    pub config_schema: extern "C" fn() -> RString,
    /// Creates a connector from its name in the flow, its configuration and its handle to the host. For an artefact of
    /// another kind, returns an error of kind [`ErrorKind::UNSUPPORTED`](crate::error::ErrorKind::UNSUPPORTED).
    #[sabi(last_prefix_field)]
    pub create_connector: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawConnectorBox, PluginError>,
    /// Constructors for the kinds other than connectors.
    pub constructors: ConstructorsRef,
}

/// Constructors for artefacts that are not connectors. Each constructor takes the name of the pipeline or connector
/// that the component is a part of, the component's configuration, and its handle to the host. A constructor that does
/// not belong to the artefact's kind returns an error of kind
/// [`ErrorKind::UNSUPPORTED`](crate::error::ErrorKind::UNSUPPORTED).
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ConstructorsRef)))]
#[sabi(missing_field(option))]
pub struct Constructors {
    /// Creates an operator.
    pub operator: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawOperatorBox, PluginError>,
    /// Creates a codec.
    pub codec:
        extern "C" fn(RStr<'_>, &Value<'static>, HostHandle) -> RResult<RawCodecBox, PluginError>,
    /// Creates a preprocessor.
    pub preprocessor: extern "C" fn(
        RStr<'_>,
        &Value<'static>,
        HostHandle,
    ) -> RResult<RawPreprocessorBox, PluginError>,
    /// Creates a postprocessor.
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
    /// ABI version that the plugin was built for.
    pub abi_version: AbiVersion,
    /// Returns the components that the library offers.
    #[sabi(last_prefix_field)]
    pub artefacts: extern "C" fn() -> RVec<ArtefactRef>,
}

impl RootModule for PluginModuleRef {
    // The runtime does not use abi_stable's own loader, because that loader caches the first library permanently.
    declare_root_module_statics! {PluginModuleRef}
    const BASE_NAME: &'static str = "tremor_plugin";
    const NAME: &'static str = "tremor_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
