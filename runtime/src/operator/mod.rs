//! Operators: what a pipeline does to events.

mod filter;

use serde_json::Value as Config;
use tremor_pdk::{Batch, Operator, Output, Result as PluginResult};

/// The names that flow files know operators by.
pub const OPERATORS: &[&str] = &["filter", "passthrough"];

/// An operator by the name that flow files know it by.
///
/// # Errors
/// What is wrong with the name or the configuration, in a sentence.
pub(crate) fn operator(name: &str, config: &Config) -> Result<Box<dyn Operator>, String> {
    match name {
        "filter" => filter::Filter::new(config).map(|filter| Box::new(filter) as _),
        "passthrough" => Ok(Box::new(Passthrough)),
        _ => Err(format!("there is no operator `{name}`; there are {OPERATORS:?}")),
    }
}

/// The ports by which events leave an operator besides `out` and `err`: what its events are sent
/// out of by position.
///
/// # Errors
/// As [`operator`].
pub(crate) fn ports(name: &str, config: &Config) -> Result<Vec<String>, String> {
    let _ = (name, config);
    Ok(Vec::new())
}

/// The JSON Schema of an operator's configuration.
pub fn schema(name: &str) -> Option<Config> {
    match name {
        "filter" => Some(schemars::schema_for!(filter::Config).to_value()),
        "passthrough" => Some(schemars::schema_for!(PassthroughConfig).to_value()),
        _ => None,
    }
}

/// Hands events on as they are.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "passthrough")]
struct PassthroughConfig {}

struct Passthrough;

impl Operator for Passthrough {
    fn process(&mut self, _batch: &mut Batch, _output: &mut Output) -> PluginResult<()> {
        Ok(())
    }
}
