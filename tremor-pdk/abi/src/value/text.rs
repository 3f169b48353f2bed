//! The string of a value.

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
};

use abi_stable::StableAbi;

use super::buffer::Buffer;

/// UTF-8 text, borrowed or owned, safe to drop on either side of the boundary: 24 bytes.
///
/// Owned text is freed by the side that allocated it. It cannot grow; build it in a `String` and
/// convert that, which costs nothing if the string has no spare capacity.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct Str<'v>(Buffer<'v>);

impl<'v> Str<'v> {
    /// Text that lives elsewhere.
    #[inline]
    pub const fn borrowed(text: &'v str) -> Self {
        Self(Buffer::borrowed(text.as_bytes()))
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        // SAFETY: every constructor takes the bytes of a `str`, and nothing changes them.
        unsafe { std::str::from_utf8_unchecked(self.0.as_slice()) }
    }

    /// Whether the text lives elsewhere.
    #[inline]
    pub const fn is_borrowed(&self) -> bool {
        self.0.is_borrowed()
    }

    /// The same text, copied if it was borrowed.
    #[inline]
    pub fn into_static(self) -> Str<'static> {
        Str(self.0.into_static())
    }
}

impl Deref for Str<'_> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Str<'_> {
    #[inline]
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Str<'_> {
    #[inline]
    fn borrow(&self) -> &str {
        self
    }
}

impl Default for Str<'_> {
    #[inline]
    fn default() -> Self {
        Self::borrowed("")
    }
}

impl<'v> From<&'v str> for Str<'v> {
    #[inline]
    fn from(text: &'v str) -> Self {
        Self::borrowed(text)
    }
}

impl From<String> for Str<'_> {
    #[inline]
    fn from(text: String) -> Self {
        Self(Buffer::owned(text.into_bytes().into_boxed_slice()))
    }
}

impl<'v> From<Cow<'v, str>> for Str<'v> {
    fn from(text: Cow<'v, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<Str<'_>> for String {
    fn from(text: Str<'_>) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq for Str<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Str<'_> {}

impl PartialEq<str> for Str<'_> {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str<'_> {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Str<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Str<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Str<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_and_owned_text_are_equal() {
        let (borrowed, owned) = (Str::from("größe"), Str::from("größe".to_owned()));
        assert!(borrowed.is_borrowed() && !owned.is_borrowed());
        assert_eq!(borrowed, owned);
        assert_eq!(borrowed.cmp(&owned), Ordering::Equal);
    }

    #[test]
    fn into_static_copies_only_what_is_borrowed() {
        let owned = Str::from("owned".to_owned());
        let place = owned.as_ptr();
        assert_eq!(owned.into_static().as_ptr(), place);

        let source = "borrowed".to_owned();
        let copy = Str::from(source.as_str()).into_static();
        drop(source);
        assert_eq!(copy, "borrowed");
    }

    #[test]
    fn a_clone_outlives_its_owned_source() {
        let owned = Str::from("text".to_owned());
        let clone = owned.clone();
        drop(owned);
        assert_eq!(clone, "text");
    }

    #[test]
    fn empty_text_can_be_owned() {
        assert_eq!(Str::from(String::new()).into_static(), Str::default());
    }
}
