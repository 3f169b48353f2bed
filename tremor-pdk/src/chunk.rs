//! The size of a read, as a configuration key of sources of bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Maximum number of bytes that a source reads at once, from 1 to [`ChunkBytes::MOST`].
///
/// The type is for a configuration key, usually `chunk_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u32")]
#[schemars(inline, extend("minimum" = 1, "maximum" = Self::MOST))]
pub struct ChunkBytes(u32);

impl ChunkBytes {
    /// Largest size: 64 MiB, in bytes.
    pub const MOST: u32 = 64 << 20;

    /// Creates a size of `bytes` bytes.
    ///
    /// # Panics
    /// Panics if `bytes` is 0 or more than [`ChunkBytes::MOST`]. In a constant, the panic is a compile error.
    pub const fn new(bytes: u32) -> Self {
        assert!(bytes > 0 && bytes <= Self::MOST);
        Self(bytes)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<u32> for ChunkBytes {
    type Error = Error;

    fn try_from(bytes: u32) -> Result<Self, Error> {
        if !(1..=Self::MOST).contains(&bytes) {
            let message =
                format!("expected a number of bytes from 1 to {}, found {bytes}", Self::MOST);
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
    fn size_is_limited_to_64_mib() {
        assert_eq!(from_str::<ChunkBytes>("67108864").unwrap(), ChunkBytes::new(64 << 20));
        let error = from_str::<ChunkBytes>("0").unwrap_err().to_string();
        assert_eq!(error, "expected a number of bytes from 1 to 67108864, found 0");
        let schema = schemars::schema_for!(ChunkBytes).to_value();
        assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(67_108_864)));
    }
}
