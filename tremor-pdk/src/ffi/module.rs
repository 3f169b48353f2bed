//! The root module and its artefacts.

use abi_stable::{
    library::{CheckTypeLayout, LibHeader, RootModuleError, RootModuleResult},
    prefix_type::{PrefixRefTrait, PrefixTypeTrait},
    std_types::{RResult, RStr, RString, RVec},
};
use tremor_abi::{
    connector::RawConnectorBox,
    document::ValueRef,
    host::HostHandle,
    module::{Artefact, ArtefactKind, ArtefactRef, PluginModule, PluginModuleRef},
    value::Value,
    version::AbiVersion,
};

use super::{
    connector::connector,
    guard::{guard, install_hook},
};
use crate::{Connector, Error, Host, Result, driver::ConnectorDriver};

/// The root module of a library that offers `artefacts`. Called once a load; what it makes lives
/// as long as the process, as libraries do.
pub fn root_module(artefacts: extern "C" fn() -> RVec<ArtefactRef>) -> RootModuleResult {
    let module = guard("the root module", || {
        install_hook();
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
pub const fn header(root_module: extern "C" fn() -> RootModuleResult) -> LibHeader {
    // SAFETY: whatever this module's `root_module` returns is a `PluginModuleRef`, and the export
    // macro, the only caller, hands over a function that calls it and nothing else.
    unsafe { LibHeader::from_constructor::<PluginModuleRef>(root_module, CheckTypeLayout::Yes) }
}

/// The artefact of a connector.
pub fn artefact<C: Connector>() -> ArtefactRef {
    Artefact {
        kind: ArtefactKind::CONNECTOR,
        name: C::NAME.into(),
        config_schema: config_schema::<C>,
        create_connector: create_connector::<C>,
        validate: validate::<C>,
    }
    .leak_into_prefix()
}

extern "C" fn config_schema<C: Connector>() -> RString {
    let schema = || serde_json::to_string(&schemars::schema_for!(C::Config)).unwrap_or_default();
    // A type whose schema cannot be made accepts everything here and is checked by its
    // constructor.
    guard("config_schema", schema).unwrap_or_default().into()
}

fn config<C: Connector>(config: &Value<'static>) -> Result<C::Config> {
    serde_json::to_value(ValueRef::from(config))
        .and_then(serde_json::from_value)
        .map_err(|error| Error::configuration(format!("config of `{}`: {error}", C::NAME)))
}

extern "C" fn validate<C: Connector>(value: &Value<'static>) -> RResult<(), Error> {
    guard("validate", || C::validate(&config::<C>(value)?)).and_then(|result| result).into()
}

extern "C" fn create_connector<C: Connector>(
    id: RStr<'_>,
    value: &Value<'static>,
    host: HostHandle,
) -> RResult<RawConnectorBox, Error> {
    guard("new", || {
        let config = config::<C>(value)?;
        C::validate(&config)?;
        let made = C::new(id.as_str(), config, Host::new(host))?;
        Ok(connector(Box::new(ConnectorDriver::new(made))))
    })
    .and_then(|result| result)
    .into()
}
