//! Binary data of values.

use abi_stable::StableAbi;

use super::buffer::{Buffer, slice_traits};

/// Binary data, borrowed or owned: 24 bytes. The host and plugins may drop data that the other side has allocated.
///
/// The representation is that of [`Str`](super::Str), without the guarantee of UTF-8.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct Bytes<'v>(Buffer<'v>);

impl<'v> Bytes<'v> {
    /// Creates data that borrows `bytes`.
    #[inline]
    pub const fn borrowed(bytes: &'v [u8]) -> Self {
        Self(Buffer::borrowed(bytes))
    }

    /// Returns the data.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

slice_traits!(Bytes, [u8], Vec<u8>, as_slice);
