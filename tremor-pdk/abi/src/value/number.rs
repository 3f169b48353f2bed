//! Numbers that are kept as text.

use std::fmt;

use abi_stable::StableAbi;

use super::Str;
use crate::document::is_json_number;

/// The text of a JSON number: of one that no 64-bit integer and no float is equal to.
///
/// [`ValueRef`](crate::document::ValueRef) describes how such a number compares and what it becomes
/// elsewhere.
#[repr(transparent)]
#[derive(Clone, StableAbi)]
pub struct Number<'v>(Str<'v>);

impl<'v> Number<'v> {
    /// Returns the number, or `None` if `text` is not a number as RFC 8259 defines it. Text of
    /// numbers that are equal to an integer or a float is accepted, and kept unchanged as well.
    pub fn new(text: impl Into<Str<'v>>) -> Option<Self> {
        let text = text.into();
        is_json_number(text.as_bytes()).then_some(Self(text))
    }

    /// Makes a number of text that [`is_json_number`] accepted.
    pub(crate) fn of_checked(text: Str<'v>) -> Self {
        debug_assert!(is_json_number(text.as_bytes()));
        Self(text)
    }

    /// Returns the text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the same number with text of its own.
    pub fn into_static(self) -> Number<'static> {
        Number(self.0.into_static())
    }
}

impl fmt::Debug for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
