//! Operators: what a pipeline does to events.

mod filter;

use serde_json::Value as Config;
use tremor_pdk::{Batch, abi::batch::Rejected};

/// The names that flow files know operators by.
pub const OPERATORS: &[&str] = &["filter", "passthrough"];

/// One step of a pipeline. It has its own state, and sees batches one after the other.
pub(crate) trait Operator: Send {
    /// Processes the batch in place.
    fn process(&mut self, batch: &mut Batch) -> Processed;
}

/// What an operator did besides what is left in the batch.
#[derive(Debug, Default)]
pub(crate) struct Processed {
    /// How many events it dropped on purpose.
    pub(crate) discarded: usize,
    /// What it failed on: for the `err` port.
    pub(crate) rejected: Vec<Rejected>,
}

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
    fn process(&mut self, _batch: &mut Batch) -> Processed {
        Processed::default()
    }
}
