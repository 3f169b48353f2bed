//! Options that codecs share, and the options of `json` for both directions.

use serde::{Deserialize, Deserializer, de::Error};
use tremor_abi::document::MAX_DEPTH;

use super::{Codec, json, msgpack};

/// Options for reading and writing JSON.
#[tremor_pdk::config]
#[serde(default)]
pub(crate) struct Json {
    /// `true` if the keys of each object are written in the order of their bytes.
    sorted_keys: bool,
    /// `true` if events that were not edited are encoded too. Otherwise they leave as they came.
    canonical: bool,
    /// Form of numbers that no 64-bit integer or float represents exactly.
    numbers: Numbers,
    /// Maximum nesting depth of arrays and objects.
    #[serde(deserialize_with = "max_depth")]
    #[schemars(range(min = 1, max = MAX_DEPTH))]
    max_depth: usize,
}

#[tremor_pdk::config]
#[derive(PartialEq)]
#[serde(rename_all = "lowercase")]
enum Numbers {
    /// The number keeps its text, and so its value.
    Exact,
    /// The number is read as the nearest float. A number beyond the range of floats is bad data.
    Float,
}

impl Default for Json {
    fn default() -> Self {
        Self { sorted_keys: false, canonical: false, numbers: Numbers::Exact, max_depth: MAX_DEPTH }
    }
}

impl From<Json> for Codec {
    fn from(options: Json) -> Self {
        let Json { sorted_keys, canonical, numbers, max_depth } = options;
        let nearest_floats = numbers == Numbers::Float;
        let decode = json::DecodeOptions { max_depth, nearest_floats };
        Self::Json { decode, encode: json::EncodeOptions { sorted_keys, canonical } }
    }
}

/// Options of the format `msgpack`.
#[tremor_pdk::config]
#[serde(default)]
pub(crate) struct Msgpack {
    /// `true` if events that were not edited are encoded too. Otherwise they leave as they came.
    canonical: bool,
    /// Maximum nesting depth of arrays and maps. An extension counts as the two nested objects that represent it.
    #[serde(deserialize_with = "max_depth")]
    #[schemars(range(min = 1, max = MAX_DEPTH))]
    max_depth: usize,
}

impl Default for Msgpack {
    fn default() -> Self {
        Self { canonical: false, max_depth: MAX_DEPTH }
    }
}

impl From<Msgpack> for Codec {
    fn from(Msgpack { canonical, max_depth }: Msgpack) -> Self {
        let decode = msgpack::DecodeOptions { max_depth };
        Self::Msgpack { decode, encode: msgpack::EncodeOptions { canonical } }
    }
}

/// Deserialises a maximum nesting depth from 1 to [`MAX_DEPTH`].
fn max_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let depth = usize::deserialize(deserializer)?;
    if (1..=MAX_DEPTH).contains(&depth) {
        return Ok(depth);
    }
    Err(D::Error::custom(format_args!("expected a number from 1 to {MAX_DEPTH}, found {depth}")))
}
