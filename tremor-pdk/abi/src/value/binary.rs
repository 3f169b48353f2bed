//! The binary data of a value.

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
};

use abi_stable::StableAbi;

use super::buffer::Buffer;

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

    /// Whether the data lives elsewhere.
    #[inline]
    pub const fn is_borrowed(&self) -> bool {
        self.0.is_borrowed()
    }

    /// The same data, copied if it was borrowed.
    #[inline]
    pub fn into_static(self) -> Bytes<'static> {
        Bytes(self.0.into_static())
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes<'_> {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Default for Bytes<'_> {
    #[inline]
    fn default() -> Self {
        Self::borrowed(&[])
    }
}

impl<'v> From<&'v [u8]> for Bytes<'v> {
    #[inline]
    fn from(bytes: &'v [u8]) -> Self {
        Self::borrowed(bytes)
    }
}

impl From<Vec<u8>> for Bytes<'_> {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        Self(Buffer::owned(bytes.into_boxed_slice()))
    }
}

impl<'v> From<Cow<'v, [u8]>> for Bytes<'v> {
    fn from(bytes: Cow<'v, [u8]>) -> Self {
        match bytes {
            Cow::Borrowed(bytes) => bytes.into(),
            Cow::Owned(bytes) => bytes.into(),
        }
    }
}

impl PartialEq for Bytes<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Bytes<'_> {}

impl PartialOrd for Bytes<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Bytes<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}
