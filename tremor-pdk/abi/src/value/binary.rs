//! The binary data of a value.

use abi_stable::StableAbi;

use super::buffer::{Buffer, holds};

/// Binary data, borrowed or owned, safe to drop on either side of the boundary: 24 bytes.
///
/// As [`Str`](super::Str) in everything but the promise of UTF-8.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct Bytes<'v>(Buffer<'v>);

impl<'v> Bytes<'v> {
    /// Data that lives elsewhere.
    #[inline]
    pub const fn borrowed(bytes: &'v [u8]) -> Self {
        Self(Buffer::borrowed(bytes))
    }

    /// The data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

holds!(Bytes, [u8], Vec<u8>, as_slice);
