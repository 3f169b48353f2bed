//! A key that every source of bytes has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// How much a source reads at once, in bytes: from 1 to [`ChunkBytes::MOST`]. For a key of a
/// configuration, usually `chunk_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u32")]
#[schemars(inline, extend("minimum" = 1, "maximum" = Self::MOST))]
pub struct ChunkBytes(u32);

impl ChunkBytes {
    /// 64 MiB.
    pub const MOST: u32 = 64 << 20;

    /// So many bytes.
    ///
    /// # Panics
    /// Where that is none, or more than [`ChunkBytes::MOST`]: at compile time for a default.
    pub const fn new(bytes: u32) -> Self {
        assert!(bytes > 0 && bytes <= Self::MOST);
        Self(bytes)
    }

    /// As a length.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<u32> for ChunkBytes {
    type Error = Error;

    fn try_from(bytes: u32) -> Result<Self, Error> {
        if !(1..=Self::MOST).contains(&bytes) {
            let message = format!("{bytes} bytes: choose a number from 1 to {}", Self::MOST);
            return Err(Error::configuration(message));
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json};

    use super::ChunkBytes;

    #[test]
    fn a_chunk_has_a_byte_and_no_more_than_64_mib() {
        assert_eq!(from_str::<ChunkBytes>("67108864").unwrap(), ChunkBytes::new(64 << 20));
        let error = from_str::<ChunkBytes>("0").unwrap_err().to_string();
        assert_eq!(error, "0 bytes: choose a number from 1 to 67108864");
        let schema = schemars::schema_for!(ChunkBytes).to_value();
        assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(67_108_864)));
    }
}
