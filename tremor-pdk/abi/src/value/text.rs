//! Text of values.

use std::fmt;

use abi_stable::StableAbi;

use super::buffer::{Buffer, slice_traits};

/// UTF-8 text, borrowed or owned: 24 bytes. The host and plugins may drop text that the other side has allocated.
///
/// Owned text is freed by the side that allocated it. Text cannot grow: build a `String` and convert it. The conversion
/// does not copy if the string has no spare capacity.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct Str<'v>(Buffer<'v>);

impl<'v> Str<'v> {
    /// Creates text that borrows `text`.
    #[inline]
    pub const fn borrowed(text: &'v str) -> Self {
        Self(Buffer::borrowed(text.as_bytes()))
    }

    /// Returns the text.
    #[inline]
    pub fn as_str(&self) -> &str {
        // SAFETY: the bytes are UTF-8, because every constructor takes the bytes of a `str`, and nothing changes them.
        unsafe { std::str::from_utf8_unchecked(self.0.as_slice()) }
    }
}

slice_traits!(Str, str, String, as_str);

impl From<Str<'_>> for String {
    fn from(text: Str<'_>) -> Self {
        text.as_str().to_owned()
    }
}

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
        assert_eq!(borrowed.cmp(&owned), std::cmp::Ordering::Equal);
    }

    #[test]
    fn into_static_copies_only_borrowed_text() {
        let owned = Str::from("owned".to_owned());
        let address = owned.as_ptr();
        assert_eq!(owned.into_static().as_ptr(), address);

        let source = "borrowed".to_owned();
        let copy = Str::from(source.as_str()).into_static();
        drop(source);
        assert_eq!(copy, "borrowed");
    }

    #[test]
    fn clone_outlives_its_owned_source() {
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
