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
    Connector, Host, Operator, OperatorPlugin, Postprocessor, PostprocessorPlugin, Preprocessor,
    PreprocessorPlugin, Result, config, driver::ConnectorDriver, dynamic::DynConnector,
};

/// A plugin crate.
#[derive(Clone)]
pub struct LinkedPlugin {
    /// What it says about itself, as a library's metadata does.
    pub metadata: &'static Record,
    /// Its components, but for codecs, which can only be loaded.
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
    /// Whether a configuration is good. The ports of an operator of this configuration.
    pub validate: fn(&Json) -> Result<Vec<String>>,
    /// Makes an instance.
    pub make: Make,
}

/// Makes an instance of a component. The text is its name in the flow.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// A connector.
    Connector(fn(&str, &Json, HostHandle) -> Result<Box<dyn DynConnector>>),
    /// An operator.
    Operator(fn(&str, &Json, HostHandle) -> Result<Box<dyn Operator>>),
    /// A preprocessor.
    Preprocessor(fn(&Json) -> Result<Box<dyn Preprocessor>>),
    /// A postprocessor.
    Postprocessor(fn(&Json) -> Result<Box<dyn Postprocessor>>),
}

/// The JSON Schema of a configuration.
pub fn config_schema<C: JsonSchema>() -> Option<Json> {
    serde_json::to_value(schemars::schema_for!(C)).ok()
}

/// A connector.
pub const fn connector<C: Connector>() -> LinkedComponent {
    fn make<C: Connector>(
        id: &str,
        json: &Json,
        host: HostHandle,
    ) -> Result<Box<dyn DynConnector>> {
        let config = config::read_valid(json, C::validate)?;
        Ok(Box::new(ConnectorDriver::new(C::new(id, config, Host::new(host))?)))
    }
    LinkedComponent {
        kind: "connector",
        name: C::NAME,
        config_schema: config_schema::<C::Config>,
        validate: |json| config::read_valid(json, C::validate).map(|_| Vec::new()),
        make: Make::Connector(make::<C>),
    }
}

/// An operator.
pub const fn operator<O: OperatorPlugin>() -> LinkedComponent {
    fn make<O: OperatorPlugin>(
        id: &str,
        json: &Json,
        host: HostHandle,
    ) -> Result<Box<dyn Operator>> {
        let config = config::read_valid(json, O::validate)?;
        Ok(Box::new(O::new(id, config, Host::new(host))?))
    }
    LinkedComponent {
        kind: "operator",
        name: O::NAME,
        config_schema: config_schema::<O::Config>,
        validate: |json| {
            let config = config::read_valid(json, O::validate)?;
            Ok(O::ports(&config))
        },
        make: Make::Operator(make::<O>),
    }
}

macro_rules! processor {
    ($(#[$doc:meta])* $function:ident, $plugin:ident, $make:ident) => {
        $(#[$doc])*
        pub const fn $function<T: $plugin>() -> LinkedComponent {
            fn make<T: $plugin>(json: &Json) -> Result<Box<dyn $make>> {
                Ok(Box::new(T::new(config::read_valid(json, T::validate)?)?))
            }
            LinkedComponent {
                kind: stringify!($function),
                name: T::NAME,
                config_schema: config_schema::<T::Config>,
                validate: |json| make::<T>(json).map(|_| Vec::new()),
                make: Make::$make(make::<T>),
            }
        }
    };
}

processor! {
    /// A preprocessor.
    preprocessor, PreprocessorPlugin, Preprocessor
}
processor! {
    /// A postprocessor.
    postprocessor, PostprocessorPlugin, Postprocessor
}
