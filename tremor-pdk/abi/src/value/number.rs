//! Numbers that are kept as text.

use std::fmt;

use abi_stable::StableAbi;

use super::Str;
use crate::document::is_json_number;

/// The text of a JSON number, usually one that no 64-bit integer or float represents exactly.
///
/// [`ValueRef`](crate::document::ValueRef) describes how such a number compares, and how it is converted to other
/// representations.
#[repr(transparent)]
#[derive(Clone, StableAbi)]
pub struct Number<'v>(Str<'v>);

impl<'v> Number<'v> {
    /// Creates a number, or returns `None` if `text` is not a number as RFC 8259 defines it. A number that an integer
    /// or a float represents exactly is also accepted, and kept as text.
    pub fn new(text: impl Into<Str<'v>>) -> Option<Self> {
        let text = text.into();
        is_json_number(text.as_bytes()).then_some(Self(text))
    }

    /// Creates a number from text that [`is_json_number`] accepted.
    pub(crate) fn of_checked(text: Str<'v>) -> Self {
        debug_assert!(is_json_number(text.as_bytes()));
        Self(text)
    }

    /// Returns the text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Copies borrowed text, and returns the owned number.
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
