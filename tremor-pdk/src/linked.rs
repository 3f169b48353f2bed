//! Plugins that are linked into the program that runs them, instead of being loaded: their
//! components as trait objects of the authors' traits, with no adapter, no FFI-safe trait
//! object and no guard in between. A panic of theirs is the program's.
//!
//! Every plugin crate has a function `__tremor_plugin::linked`, made by [`export!`](crate::export).
//! Several plugin crates fit into one program only with the feature `link-static`, which leaves out
//! the symbols that a library exports under fixed names.

use schemars::JsonSchema;
use serde_json::Value as Json;
use tremor_abi::{host::HostHandle, metadata::Record};

pub use crate::config::read;
use crate::{
    Codec, Component, Connector, Operator, Postprocessor, Preprocessor, Result, Sink, Source,
    Splitter, StreamSplitter, component,
    driver::{CodecDriver, ConnectorDriver},
    dynamic::{DynCodec, DynConnector},
    only::{IsSink, IsSource, Only},
};

/// A plugin crate.
#[derive(Clone)]
pub struct LinkedPlugin {
    /// What it says about itself, as a library's metadata does.
    pub metadata: &'static Record,
    /// Its components.
    pub components: Vec<LinkedComponent>,
}

/// A component of a plugin crate.
#[derive(Clone, Copy, Debug)]
pub struct LinkedComponent {
    /// In the words of metadata: `connector`, `operator`, …
    pub kind: &'static str,
    /// The name that flows use.
    pub name: &'static str,
    /// The JSON Schema of its configuration; none where the plugin has none to give.
    pub config_schema: fn() -> Option<Json>,
    /// Makes an instance.
    pub make: Make,
}

/// Makes an instance of a component, from its name in the flow and its configuration.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// A connector.
    Connector(Create<dyn DynConnector>),
    /// A codec.
    Codec(Create<dyn DynCodec>),
    /// An operator.
    Operator(Create<dyn Operator>),
    /// A preprocessor.
    Preprocessor(Create<dyn Preprocessor>),
    /// A postprocessor.
    Postprocessor(Create<dyn Postprocessor>),
}

/// What makes an instance.
pub type Create<T> = fn(&str, &Json, HostHandle) -> Result<Box<T>>;

/// The JSON Schema of a configuration.
pub fn config_schema<C: JsonSchema>() -> Option<Json> {
    serde_json::to_value(schemars::schema_for!(C)).ok()
}

macro_rules! linked {
    ($($(#[$doc:meta])* $kinds:ident: $kind:literal, $trait:ident |$made:ident| $boxed:expr;)*) => {$(
        $(#[$doc])*
        pub const fn $kinds<T: $trait + Component>() -> LinkedComponent {
            LinkedComponent {
                kind: $kind,
                name: T::NAME,
                config_schema: config_schema::<T::Config>,
                make: Make::$trait(|id, config, host| {
                    let $made: T = component::make(id, config, host)?;
                    Ok(Box::new($boxed))
                }),
            }
        }
    )*};
}

linked! {
    /// A connector.
    connectors: "connector", Connector |made| ConnectorDriver::new(made);
    /// An operator.
    operators: "operator", Operator |made| made;
    /// A codec.
    codecs: "codec", Codec |made| CodecDriver::new(made);
    /// A preprocessor.
    preprocessors: "preprocessor", Preprocessor |made| made;
    /// A postprocessor.
    postprocessors: "postprocessor", Postprocessor |made| made;
}

/// A source that is a component by itself.
pub const fn sources<T: Component + Source>() -> LinkedComponent {
    connectors::<Only<T, IsSource>>()
}

/// A preprocessor that is a splitter of streams.
pub const fn splitters<T: Component + StreamSplitter>() -> LinkedComponent {
    preprocessors::<Splitter<T>>()
}

/// A sink that is a component by itself.
pub const fn sinks<T: Component + Sink>() -> LinkedComponent {
    connectors::<Only<T, IsSink>>()
}
