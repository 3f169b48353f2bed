//! Constructors of the artefacts in the root module: one function for each kind of [`export!`](crate::export).

use abi_stable::{
    prefix_type::PrefixTypeTrait,
    sabi_trait::TD_Opaque,
    std_types::{RResult, RStr, RString},
};
use schemars::JsonSchema;
use tremor_abi::{
    component::{RawCodecBox, RawOperatorBox, RawPostprocessorBox, RawPreprocessorBox},
    connector::RawConnectorBox,
    document::ValueRef,
    host::HostHandle,
    module::{Artefact, ArtefactKind, ArtefactRef, Constructors},
    value::Value,
};

use super::{connector::connector, fused::Fused, guard::guard};
use crate::{
    Codec, Component, Connector, Error, Operator, Postprocessor, Preprocessor, Sink, Source,
    Splitter, StreamSplitter,
    component::make,
    driver::{CodecDriver, ConnectorDriver},
    only::{IsSink, IsSource, Only},
};

type Create<T> = extern "C" fn(RStr<'_>, &Value<'static>, HostHandle) -> RResult<T, Error>;

/// Constructors that return an error of the kind unsupported. An artefact replaces the constructor of its own kind.
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
    RResult::RErr(Error::unsupported("the artefact has a different kind"))
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

/// Creates an instance of a component, and wraps it in the adapter of the ABI.
fn create<T: Component, R>(
    id: RStr<'_>,
    config: &Value<'static>,
    host: HostHandle,
    raw: impl FnOnce(T) -> R,
) -> RResult<R, Error> {
    let make = || make(id.as_str(), ValueRef::from(config), host).map(raw);
    guard("new", make).and_then(|result| result).into()
}

/// Returns the artefact of a connector.
pub fn connectors<T: Connector>() -> ArtefactRef {
    extern "C" fn new<T: Connector>(
        id: RStr<'_>,
        config: &Value<'static>,
        host: HostHandle,
    ) -> RResult<RawConnectorBox, Error> {
        create(id, config, host, |made: T| connector(Box::new(ConnectorDriver::new(made))))
    }
    artefact::<T>(ArtefactKind::CONNECTOR, new::<T>, NONE)
}

/// Returns the artefact of a source that is a component without a connector.
pub fn sources<T: Component + Source>() -> ArtefactRef {
    connectors::<Only<T, IsSource>>()
}

/// Returns the artefact of a sink that is a component without a connector.
pub fn sinks<T: Component + Sink>() -> ArtefactRef {
    connectors::<Only<T, IsSink>>()
}

/// Returns the artefact of a preprocessor that is a splitter of streams.
pub fn splitters<T: Component + StreamSplitter>() -> ArtefactRef {
    preprocessors::<Splitter<T>>()
}

macro_rules! others {
    ($($kinds:ident: $kind:ident, $trait:ident, $field:ident, $raw:ident |$made:ident| $component:expr;)*) => {$(
        #[doc = concat!("Returns the artefact of components of the kind ", stringify!($field), ".")]
        pub fn $kinds<T: $trait + Component>() -> ArtefactRef {
            extern "C" fn new<T: $trait + Component>(
                id: RStr<'_>,
                config: &Value<'static>,
                host: HostHandle,
            ) -> RResult<$raw, Error> {
                let raw = |$made: T| $raw::from_value(Fused::new($component), TD_Opaque);
                create(id, config, host, raw)
            }
            let constructors = Constructors { $field: new::<T>, ..NONE };
            artefact::<T>(ArtefactKind::$kind, not_supported, constructors)
        }
    )*};
}

others! {
    operators: OPERATOR, Operator, operator, RawOperatorBox |made| made;
    codecs: CODEC, Codec, codec, RawCodecBox |made| CodecDriver::new(made);
    preprocessors: PREPROCESSOR, Preprocessor, preprocessor, RawPreprocessorBox |made| made;
    postprocessors: POSTPROCESSOR, Postprocessor, postprocessor, RawPostprocessorBox |made| made;
}

extern "C" fn config_schema<C: JsonSchema>() -> RString {
    let schema = || serde_json::to_string(&schemars::schema_for!(C)).unwrap_or_default();
    // If creating the schema panics, the schema is empty and accepts every configuration, which the constructor still
    // checks.
    guard("config_schema", schema).unwrap_or_default().into()
}
