//! What happens to bytes on either side of a codec: preprocessors put messages together before it,
//! postprocessors frame them behind it.

mod join;
mod lines;
mod reassembly;

use serde_json::Value as Config;
use tremor_pdk::abi::batch::{Batch, Rejected};

pub(crate) use self::join::Join;

/// The names that flow files know preprocessors by.
pub const PREPROCESSORS: &[&str] = &["lines"];
/// The names that flow files know postprocessors by.
pub const POSTPROCESSORS: &[&str] = &["lines"];

/// Puts messages together from what a source brought, with a state for each stream.
pub(crate) trait Preprocessor: Send {
    /// Replaces the raw events of the batch by messages. What cannot be a message is returned.
    fn process(&mut self, batch: &mut Batch) -> Vec<Rejected>;

    /// All streams end: adds what was held back to the batch.
    fn finish(&mut self, batch: &mut Batch) -> Vec<Rejected>;
}

/// Frames messages: what comes behind each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Postprocessor {
    /// The bytes that end every message.
    pub(crate) suffix: &'static [u8],
}

/// A preprocessor by the name that flow files know it by.
///
/// # Errors
/// What is wrong with the name or the configuration, in a sentence.
pub(crate) fn preprocessor(name: &str, config: &Config) -> Result<Box<dyn Preprocessor>, String> {
    match name {
        "lines" => Ok(Box::new(lines::Lines::new(&parse(config)?))),
        _ => Err(format!("there is no preprocessor `{name}`; there are {PREPROCESSORS:?}")),
    }
}

/// A postprocessor by the name that flow files know it by.
///
/// # Errors
/// What is wrong with the name or the configuration, in a sentence.
pub(crate) fn postprocessor(name: &str, config: &Config) -> Result<Postprocessor, String> {
    match name {
        "lines" => parse::<NoConfig>(config).map(|_| Postprocessor { suffix: b"\n" }),
        _ => Err(format!("there is no postprocessor `{name}`; there are {POSTPROCESSORS:?}")),
    }
}

/// The JSON Schema of a preprocessor's configuration.
pub fn preprocessor_schema(name: &str) -> Option<Config> {
    (name == "lines").then(|| schemars::schema_for!(lines::Config).to_value())
}

/// The JSON Schema of a postprocessor's configuration.
pub fn postprocessor_schema(name: &str) -> Option<Config> {
    (name == "lines").then(|| schemars::schema_for!(NoConfig).to_value())
}

/// For what has nothing to configure.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

fn parse<T: serde::de::DeserializeOwned>(config: &Config) -> Result<T, String> {
    let empty = Config::Object(serde_json::Map::new());
    let config = if config.is_null() { &empty } else { config };
    T::deserialize(config).map_err(|error| error.to_string())
}
