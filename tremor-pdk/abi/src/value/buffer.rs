//! Bytes that are borrowed, or owned by whichever side of the boundary allocated them.

use std::{marker::PhantomData, ptr::NonNull, slice};

use abi_stable::StableAbi;

/// What [`Str`](super::Str) and [`Bytes`](super::Bytes) are made of.
///
/// # Memory layout
/// ```text
///  0..8        8..16      16..24
/// +-----------+----------+----------------------------------------------+
/// | start     | len      | free: null if borrowed, else the owner's own |
/// +-----------+----------+----------------------------------------------+
/// ```
/// 24 bytes instead of `RCowStr`'s 40, so that a value takes 32. There is no spare capacity: text
/// that is still growing lives in a `String`.
///
/// # Invariants
/// 1. `start` points to `len` initialised bytes that do not change for `'v`.
/// 2. If `free` is set, the bytes are a `Box<[u8]>` of the side that `free` belongs to, and this is
///    the only pointer to it.
#[repr(C)]
#[derive(StableAbi)]
pub(super) struct Buffer<'v> {
    start: NonNull<u8>,
    len: usize,
    free: Option<unsafe extern "C" fn(start: NonNull<u8>, len: usize)>,
    borrowed: PhantomData<&'v u8>,
}

// SAFETY: by invariant 1 the bytes are read-only, and by invariant 2 owned by this buffer alone;
// allocators take memory back from any thread.
unsafe impl Send for Buffer<'_> {}
// SAFETY: as for `Send`; a shared buffer can only be read.
unsafe impl Sync for Buffer<'_> {}

/// # Safety
///
/// `start` and `len` are those of a box that [`Buffer::owned`] of this side took apart; called at
/// most once for it.
unsafe extern "C" fn free(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
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
        // SAFETY: invariant 1.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Copies what is borrowed and keeps what is owned.
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
            // SAFETY: invariant 2; dropping happens once, and `into_static` forgets its source.
            unsafe { free(self.start, self.len) }
        }
    }
}

/// What [`Str`](super::Str) and [`Bytes`](super::Bytes) have in common: they are made of the slice that
/// they hold, and read, compare, hash and show themselves as that slice.
macro_rules! holds {
    ($name:ident, $slice:ty, $owned:ty, $as_slice:ident) => {
        impl $name<'_> {
            /// Whether it lives elsewhere.
            #[inline]
            pub const fn is_borrowed(&self) -> bool {
                self.0.is_borrowed()
            }

            /// The same, copied if it was borrowed.
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
pub(super) use holds;

#[cfg(test)]
mod tests {
    use super::Buffer;

    #[test]
    fn its_layout_is_fixed() {
        assert_layouts! {
            Buffer<'_> => 24, 8;
        }
    }
}
