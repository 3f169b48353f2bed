//! Bytes that are borrowed or owned. Owned bytes are freed by the side (host or plugin) that allocated them.

use std::{marker::PhantomData, ptr::NonNull, slice};

use abi_stable::StableAbi;

/// The representation of [`Str`](super::Str) and [`Bytes`](super::Bytes).
///
/// # Memory layout
/// ```text
/// 0..8    8..16  16..24
/// +-------+------+------------------------------------------+
/// | start | len  | free: null, or the function of the owner |
/// +-------+------+------------------------------------------+
/// ```
/// The size is 24 bytes (`RCowStr` has 40), so that a value has 32 bytes. A buffer has no spare capacity, so build
/// growing text in a `String`.
///
/// # Invariants
/// 1. `start` points to `len` initialised bytes that stay valid and unchanged for `'v`.
/// 2. If `free` is set, the bytes are a `Box<[u8]>` of the side that `free` belongs to, and `start` is the only pointer
///    to them.
#[repr(C)]
#[derive(StableAbi)]
pub(super) struct Buffer<'v> {
    start: NonNull<u8>,
    len: usize,
    free: Option<unsafe extern "C" fn(start: NonNull<u8>, len: usize)>,
    borrowed: PhantomData<&'v u8>,
}

// SAFETY: the bytes are read-only (invariant 1) and owned by this buffer alone if `free` is set (invariant 2), and
// allocators accept memory from any thread.
unsafe impl Send for Buffer<'_> {}
// SAFETY: a shared reference to a buffer only allows reading. The other reasons are those of `Send`.
unsafe impl Sync for Buffer<'_> {}

/// # Safety
///
/// `start` and `len` must be the parts of a box that [`Buffer::owned`] of this side leaked. The caller owns the box and
/// calls this function at most once for it.
unsafe extern "C" fn free(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller passes a leaked box and gives up its ownership.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start.as_ptr(), len)) });
}

impl<'v> Buffer<'v> {
    #[inline]
    pub(super) const fn borrowed(bytes: &'v [u8]) -> Self {
        // SAFETY: a reference is never null.
        let start = unsafe { NonNull::new_unchecked(bytes.as_ptr().cast_mut()) };
        Self { start, len: bytes.len(), free: None, borrowed: PhantomData }
    }

    #[inline]
    pub(super) fn owned(bytes: Box<[u8]>) -> Self {
        let len = bytes.len();
        let start = NonNull::from(Box::leak(bytes)).cast();
        Self { start, len, free: Some(free), borrowed: PhantomData }
    }

    #[inline]
    pub(super) const fn is_borrowed(&self) -> bool {
        self.free.is_none()
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that do not change (invariant 1).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Copies borrowed bytes, and keeps owned bytes without a copy.
    pub(super) fn into_static(self) -> Buffer<'static> {
        if self.is_borrowed() {
            return Buffer::owned(self.as_slice().into());
        }
        let this = std::mem::ManuallyDrop::new(self);
        Buffer { start: this.start, len: this.len, free: this.free, borrowed: PhantomData }
    }
}

impl Clone for Buffer<'_> {
    #[inline]
    fn clone(&self) -> Self {
        if self.is_borrowed() {
            Self { start: self.start, len: self.len, free: None, borrowed: PhantomData }
        } else {
            Self::owned(self.as_slice().into())
        }
    }
}

impl Drop for Buffer<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: `free` belongs to the side that allocated the bytes (invariant 2). The bytes are freed once,
            // because `into_static` forgets its source.
            unsafe { free(self.start, self.len) }
        }
    }
}

/// Common methods and traits of [`Str`](super::Str) and [`Bytes`](super::Bytes): conversion from the slice that they
/// contain, and reading, comparison, hashing and display as that slice.
macro_rules! slice_traits {
    ($name:ident, $slice:ty, $owned:ty, $as_slice:ident) => {
        impl $name<'_> {
            /// Returns whether the data is borrowed.
            #[inline]
            pub const fn is_borrowed(&self) -> bool {
                self.0.is_borrowed()
            }

            /// Copies the data if it is borrowed, and returns the owned data.
            #[inline]
            pub fn into_static(self) -> $name<'static> {
                $name(self.0.into_static())
            }
        }

        impl std::ops::Deref for $name<'_> {
            type Target = $slice;

            #[inline]
            fn deref(&self) -> &$slice {
                self.$as_slice()
            }
        }

        impl AsRef<$slice> for $name<'_> {
            #[inline]
            fn as_ref(&self) -> &$slice {
                self
            }
        }

        impl std::borrow::Borrow<$slice> for $name<'_> {
            #[inline]
            fn borrow(&self) -> &$slice {
                self
            }
        }

        impl Default for $name<'_> {
            #[inline]
            fn default() -> Self {
                Self::borrowed(Default::default())
            }
        }

        impl<'v> From<&'v $slice> for $name<'v> {
            #[inline]
            fn from(slice: &'v $slice) -> Self {
                Self::borrowed(slice)
            }
        }

        impl From<$owned> for $name<'_> {
            #[inline]
            fn from(owned: $owned) -> Self {
                Self(Buffer::owned(Vec::from(owned).into_boxed_slice()))
            }
        }

        impl<'v> From<std::borrow::Cow<'v, $slice>> for $name<'v> {
            fn from(slice: std::borrow::Cow<'v, $slice>) -> Self {
                match slice {
                    std::borrow::Cow::Borrowed(slice) => slice.into(),
                    std::borrow::Cow::Owned(owned) => owned.into(),
                }
            }
        }

        impl PartialEq for $name<'_> {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl Eq for $name<'_> {}

        impl PartialOrd for $name<'_> {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name<'_> {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                (**self).cmp(other)
            }
        }

        impl std::hash::Hash for $name<'_> {
            #[inline]
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                (**self).hash(state);
            }
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&**self, f)
            }
        }
    };
}
pub(super) use slice_traits;

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn layout_of_buffer_is_fixed() {
        assert_layouts! {
            Buffer<'_> => 24, 8;
        }
    }
}
