//! The root module and its artefacts.

use abi_stable::{
    library::{CheckTypeLayout, LibHeader, RootModuleError, RootModuleResult},
    prefix_type::{PrefixRefTrait, PrefixTypeTrait},
    std_types::{RResult, RStr, RString, RVec},
};
use schemars::JsonSchema;
use tremor_abi::{
    component::{RawCodecBox, RawOperatorBox, RawPostprocessorBox, RawPreprocessorBox},
    connector::RawConnectorBox,
    document::ValueRef,
    host::HostHandle,
    module::{Artefact, ArtefactKind, ArtefactRef, Constructors, PluginModule, PluginModuleRef},
    value::Value,
    version::AbiVersion,
};

use super::{
    component,
    connector::connector,
    guard::{guard, install_hook},
};
use crate::{
    Codec, Component, Connector, Error, Operator, Postprocessor, Preprocessor, component::make,
    driver::ConnectorDriver,
};

/// What a library offers.
pub trait Library {
    /// All of it, made anew.
    extern "C" fn artefacts() -> RVec<ArtefactRef>;
}

/// The root module of a library. Called once a load; what it makes lives as long as the process, as
/// libraries do.
extern "C" fn root_module<L: Library>() -> RootModuleResult {
    let module = guard("the root module", || {
        install_hook();
        let artefacts = L::artefacts;
        PluginModule { abi_version: AbiVersion::CURRENT, artefacts }.leak_into_prefix()
    });
    match module {
        // SAFETY: the host takes the erased reference for one to `PluginModule` again, which
        // `header` promises.
        Ok(module) => RResult::ROk(unsafe { module.to_prefix_ref().cast() }),
        Err(_) => RResult::RErr(RootModuleError::Unwound),
    }
}

/// What a library exports, under the name that `abi_stable` looks for, so that its root module is
/// found.
pub const fn header<L: Library>() -> LibHeader {
    // SAFETY: what `root_module` returns is a `PluginModuleRef`.
    unsafe {
        LibHeader::from_constructor::<PluginModuleRef>(root_module::<L>, CheckTypeLayout::Yes)
    }
}

type Create<T> = extern "C" fn(RStr<'_>, &Value<'static>, HostHandle) -> RResult<T, Error>;

/// Constructors for no kind.
const NONE: Constructors = Constructors {
    operator: not_supported,
    codec: not_supported,
    preprocessor: not_supported,
    postprocessor: not_supported,
};

extern "C" fn not_supported<T>(
    _id: RStr<'_>,
    _config: &Value<'static>,
    _host: HostHandle,
) -> RResult<T, Error> {
    RResult::RErr(Error::unsupported("this artefact is of another kind"))
}

fn artefact<T: Component>(
    kind: ArtefactKind,
    create_connector: Create<RawConnectorBox>,
    constructors: Constructors,
) -> ArtefactRef {
    Artefact {
        kind,
        name: T::NAME.into(),
        config_schema: config_schema::<T::Config>,
        create_connector,
        constructors: constructors.leak_into_prefix(),
    }
    .leak_into_prefix()
}

/// Makes an instance, and puts it behind the boundary.
fn create<T: Component, R>(
    id: RStr<'_>,
    config: &Value<'static>,
    host: HostHandle,
    raw: impl FnOnce(T) -> R,
) -> RResult<R, Error> {
    let make = || make(id.as_str(), ValueRef::from(config), host).map(raw);
    guard("new", make).and_then(|result| result).into()
}

/// The artefact of a connector.
pub fn connector_artefact<T: Connector>() -> ArtefactRef {
    extern "C" fn new<T: Connector>(
        id: RStr<'_>,
        config: &Value<'static>,
        host: HostHandle,
    ) -> RResult<RawConnectorBox, Error> {
        create(id, config, host, |made: T| connector(Box::new(ConnectorDriver::new(made))))
    }
    artefact::<T>(ArtefactKind::CONNECTOR, new::<T>, NONE)
}

macro_rules! artefacts {
    ($($(#[$doc:meta])* $artefact:ident: $kind:ident, $trait:ident, $field:ident, $raw:ident;)*) => {$(
        $(#[$doc])*
        pub fn $artefact<T: $trait + Component>() -> ArtefactRef {
            extern "C" fn new<T: $trait + Component>(
                id: RStr<'_>,
                config: &Value<'static>,
                host: HostHandle,
            ) -> RResult<$raw, Error> {
                create(id, config, host, component::$field::<T>)
            }
            let constructors = Constructors { $field: new::<T>, ..NONE };
            artefact::<T>(ArtefactKind::$kind, not_supported, constructors)
        }
    )*};
}

artefacts! {
    /// The artefact of an operator.
    operator_artefact: OPERATOR, Operator, operator, RawOperatorBox;
    /// The artefact of a codec.
    codec_artefact: CODEC, Codec, codec, RawCodecBox;
    /// The artefact of a preprocessor.
    preprocessor_artefact: PREPROCESSOR, Preprocessor, preprocessor, RawPreprocessorBox;
    /// The artefact of a postprocessor.
    postprocessor_artefact: POSTPROCESSOR, Postprocessor, postprocessor, RawPostprocessorBox;
}

extern "C" fn config_schema<C: JsonSchema>() -> RString {
    let schema = || serde_json::to_string(&schemars::schema_for!(C)).unwrap_or_default();
    // A type whose schema cannot be made accepts everything here and is checked by its
    // constructor.
    guard("config_schema", schema).unwrap_or_default().into()
}
