//! What the configurations of codecs share, and that of `json`, which has two sides.

use serde::{Deserialize, Deserializer, de::Error};
use tremor_abi::document::MAX_DEPTH;

use super::{Codec, json};

/// How JSON is read and written.
#[tremor_pdk::config]
#[serde(default)]
pub(crate) struct Json {
    /// Whether the keys of each object are written in the order of their bytes.
    sorted_keys: bool,
    /// What becomes of an integer that 64 bits cannot hold.
    big_integers: BigIntegers,
    /// How many arrays and objects may lie in each other.
    #[serde(deserialize_with = "max_depth")]
    #[schemars(range(min = 1, max = MAX_DEPTH))]
    max_depth: usize,
}

#[tremor_pdk::config]
#[derive(PartialEq)]
#[serde(rename_all = "lowercase")]
enum BigIntegers {
    /// Its message is bad data.
    Error,
    /// It is read as a float.
    Float,
}

impl Default for Json {
    fn default() -> Self {
        Self { sorted_keys: false, big_integers: BigIntegers::Error, max_depth: MAX_DEPTH }
    }
}

impl From<Json> for Codec {
    fn from(options: Json) -> Self {
        let Json { sorted_keys, big_integers, max_depth } = options;
        let big_integers_as_floats = big_integers == BigIntegers::Float;
        let decode = json::DecodeOptions { max_depth, big_integers_as_floats };
        Self::Json { decode, encode: json::EncodeOptions { sorted_keys } }
    }
}

/// Reads how deep values may be nested.
pub(super) fn max_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let depth = usize::deserialize(deserializer)?;
    if (1..=MAX_DEPTH).contains(&depth) {
        return Ok(depth);
    }
    Err(D::Error::custom(format_args!("expected a number from 1 to {MAX_DEPTH}, found {depth}")))
}
