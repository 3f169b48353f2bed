//! The root module and its artefacts.

use abi_stable::{
    library::{CheckTypeLayout, LibHeader, RootModuleError, RootModuleResult},
    prefix_type::{PrefixRefTrait, PrefixTypeTrait},
    std_types::{RResult, RStr, RString, RVec},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
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
    CodecPlugin, Connector, Error, Host, OperatorPlugin, PostprocessorPlugin, PreprocessorPlugin,
    Result, config, driver::ConnectorDriver,
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

/// Constructors for no kind.
const NONE: Constructors = Constructors {
    operator: no_operator,
    operator_ports: not_supported,
    codec: not_supported,
    preprocessor: not_supported,
    postprocessor: not_supported,
};

extern "C" fn not_supported<T>(_value: &Value<'static>) -> RResult<T, Error> {
    RResult::RErr(Error::unsupported("this artefact is of another kind"))
}

extern "C" fn no_operator(
    _id: RStr<'_>,
    value: &Value<'static>,
    _host: HostHandle,
) -> RResult<RawOperatorBox, Error> {
    not_supported(value)
}

extern "C" fn no_connector(
    _id: RStr<'_>,
    value: &Value<'static>,
    _host: HostHandle,
) -> RResult<RawConnectorBox, Error> {
    not_supported(value)
}

type Validate = extern "C" fn(&Value<'static>) -> RResult<(), Error>;
type CreateConnector =
    extern "C" fn(RStr<'_>, &Value<'static>, HostHandle) -> RResult<RawConnectorBox, Error>;

fn artefact<C: JsonSchema>(
    kind: ArtefactKind,
    name: &'static str,
    create_connector: CreateConnector,
    validate: Validate,
    constructors: Constructors,
) -> ArtefactRef {
    Artefact {
        kind,
        name: name.into(),
        config_schema: config_schema::<C>,
        create_connector,
        validate,
        constructors: constructors.leak_into_prefix(),
    }
    .leak_into_prefix()
}

/// The artefact of a connector.
pub fn connector_artefact<C: Connector>() -> ArtefactRef {
    extern "C" fn validate<C: Connector>(value: &Value<'static>) -> RResult<(), Error> {
        checked(value, C::validate)
    }
    let create = create_connector::<C>;
    artefact::<C::Config>(ArtefactKind::CONNECTOR, C::NAME, create, validate::<C>, NONE)
}

/// The artefact of an operator.
pub fn operator_artefact<O: OperatorPlugin>() -> ArtefactRef {
    extern "C" fn validate<O: OperatorPlugin>(value: &Value<'static>) -> RResult<(), Error> {
        checked(value, O::validate)
    }
    extern "C" fn ports<O: OperatorPlugin>(
        value: &Value<'static>,
    ) -> RResult<RVec<RString>, Error> {
        let ports = || {
            let config = config::read(ValueRef::from(value))?;
            Ok(O::ports(&config).into_iter().map(RString::from))
        };
        guard("ports", || ports().map(Iterator::collect)).and_then(|ports| ports).into()
    }
    extern "C" fn create<O: OperatorPlugin>(
        id: RStr<'_>,
        value: &Value<'static>,
        host: HostHandle,
    ) -> RResult<RawOperatorBox, Error> {
        guard("new", || {
            let config = config::read_valid(ValueRef::from(value), O::validate)?;
            Ok(component::operator(O::new(id.as_str(), config, Host::new(host))?))
        })
        .and_then(|result| result)
        .into()
    }
    let made = Constructors { operator: create::<O>, operator_ports: ports::<O>, ..NONE };
    let kind = ArtefactKind::OPERATOR;
    artefact::<O::Config>(kind, O::NAME, no_connector, validate::<O>, made)
}

macro_rules! plugin_artefact {
    ($(#[$doc:meta])* $artefact:ident, $kind:ident, $plugin:ident, $field:ident, $raw:ident) => {
        $(#[$doc])*
        pub fn $artefact<T: $plugin>() -> ArtefactRef {
            fn made<T: $plugin>(value: &Value<'static>) -> Result<T> {
                T::new(config::read_valid(ValueRef::from(value), T::validate)?)
            }
            extern "C" fn validate<T: $plugin>(value: &Value<'static>) -> RResult<(), Error> {
                let valid = || made::<T>(value).map(drop);
                guard("validate", valid).and_then(|result| result).into()
            }
            extern "C" fn create<T: $plugin>(value: &Value<'static>) -> RResult<$raw, Error> {
                let create = || made::<T>(value).map(component::$field);
                guard("new", create).and_then(|result| result).into()
            }
            let made = Constructors { $field: create::<T>, ..NONE };
            let kind = ArtefactKind::$kind;
            artefact::<T::Config>(kind, T::NAME, no_connector, validate::<T>, made)
        }
    };
}

plugin_artefact! {
    /// The artefact of a codec.
    codec_artefact, CODEC, CodecPlugin, codec, RawCodecBox
}
plugin_artefact! {
    /// The artefact of a preprocessor.
    preprocessor_artefact, PREPROCESSOR, PreprocessorPlugin, preprocessor, RawPreprocessorBox
}
plugin_artefact! {
    /// The artefact of a postprocessor.
    postprocessor_artefact, POSTPROCESSOR, PostprocessorPlugin, postprocessor, RawPostprocessorBox
}

extern "C" fn config_schema<C: JsonSchema>() -> RString {
    let schema = || serde_json::to_string(&schemars::schema_for!(C)).unwrap_or_default();
    // A type whose schema cannot be made accepts everything here and is checked by its
    // constructor.
    guard("config_schema", schema).unwrap_or_default().into()
}

fn checked<C: DeserializeOwned>(
    value: &Value<'static>,
    validate: impl FnOnce(&C) -> Result<()>,
) -> RResult<(), Error> {
    let valid = || config::read_valid(ValueRef::from(value), validate).map(drop);
    guard("validate", valid).and_then(|result| result).into()
}

extern "C" fn create_connector<C: Connector>(
    id: RStr<'_>,
    value: &Value<'static>,
    host: HostHandle,
) -> RResult<RawConnectorBox, Error> {
    guard("new", || {
        let config = config::read_valid(ValueRef::from(value), C::validate)?;
        let made = C::new(id.as_str(), config, Host::new(host))?;
        Ok(connector(Box::new(ConnectorDriver::new(made))))
    })
    .and_then(|result| result)
    .into()
}
