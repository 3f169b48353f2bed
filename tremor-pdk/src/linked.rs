//! Plugins that are linked into the program that runs them, instead of being loaded from a library file.
//!
//! The program calls the components of linked plugins through trait objects, without the adapters of the ABI, which
//! catch panics. Therefore a panic of a component is a panic of the program.
//!
//! [`export!`](crate::export) generates the function `__tremor_plugin::linked` in every plugin crate. To link several
//! plugin crates into one program, enable the feature `link-static`, which omits the symbols that libraries export
//! under fixed names.

use schemars::JsonSchema;
use serde_json::Value as Json;
use tremor_abi::{host::HostHandle, metadata::Record};

pub use crate::config::read;
use crate::{
    Codec, Component, Connector, Operator, Postprocessor, Preprocessor, Result, Sink, Source,
    Splitter, StreamSplitter, Value, component,
    driver::{CodecDriver, ConnectorDriver},
    dynamic::{DynCodec, DynConnector},
    only::{IsSink, IsSource, Only},
};

/// A plugin crate.
#[derive(Clone)]
pub struct LinkedPlugin {
    /// The metadata that the library of the crate would contain.
    pub metadata: &'static Record,
    /// Components that the crate exports.
    pub components: Vec<LinkedComponent>,
}

/// A component of a plugin crate.
#[derive(Clone, Copy, Debug)]
pub struct LinkedComponent {
    /// The kind as in the metadata of a plugin: `connector`, `operator`, …
    pub kind: &'static str,
    /// The name that flow files use.
    pub name: &'static str,
    /// Returns the JSON Schema of the configuration; `None` if the schema cannot be represented as JSON.
    pub config_schema: fn() -> Option<Json>,
    /// Whether the component is a stateless operator: see [`Component::STATELESS`].
    pub stateless: bool,
    /// Creates an instance.
    pub make: Make,
}

/// Constructor of a component; takes the name in the flow and the configuration.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// Creates a connector.
    Connector(Create<dyn DynConnector>),
    /// Creates a codec.
    Codec(Create<dyn DynCodec>),
    /// Creates an operator.
    Operator(Create<dyn Operator>),
    /// Creates a preprocessor.
    Preprocessor(Create<dyn Preprocessor>),
    /// Creates a postprocessor.
    Postprocessor(Create<dyn Postprocessor>),
}

/// A function that creates an instance.
pub type Create<T> = fn(&str, &Value<'static>, HostHandle) -> Result<Box<T>>;

/// Returns the JSON Schema of a configuration type.
pub fn config_schema<C: JsonSchema>() -> Option<Json> {
    serde_json::to_value(schemars::schema_for!(C)).ok()
}

macro_rules! linked {
    ($($(#[$doc:meta])* $kinds:ident: $kind:literal, $trait:ident, $stateless:expr, |$made:ident| $boxed:expr;)*) => {$(
        $(#[$doc])*
        pub const fn $kinds<T: $trait + Component>() -> LinkedComponent {
            LinkedComponent {
                kind: $kind,
                name: T::NAME,
                config_schema: config_schema::<T::Config>,
                stateless: $stateless,
                make: Make::$trait(|id, config, host| {
                    let $made: T = component::make(id, config, host)?;
                    Ok(Box::new($boxed))
                }),
            }
        }
    )*};
}

linked! {
    /// Describes a connector.
    connectors: "connector", Connector, false, |made| ConnectorDriver::new(made);
    /// Describes an operator.
    operators: "operator", Operator, T::STATELESS, |made| made;
    /// Describes a codec.
    codecs: "codec", Codec, false, |made| CodecDriver::new(made);
    /// Describes a preprocessor.
    preprocessors: "preprocessor", Preprocessor, false, |made| made;
    /// Describes a postprocessor.
    postprocessors: "postprocessor", Postprocessor, false, |made| made;
}

/// Describes a source that is a component without a connector.
pub const fn sources<T: Component + Source>() -> LinkedComponent {
    connectors::<Only<T, IsSource>>()
}

/// Describes a preprocessor that is a splitter of streams.
pub const fn splitters<T: Component + StreamSplitter>() -> LinkedComponent {
    preprocessors::<Splitter<T>>()
}

/// Describes a sink that is a component without a connector.
pub const fn sinks<T: Component + Sink>() -> LinkedComponent {
    connectors::<Only<T, IsSink>>()
}
