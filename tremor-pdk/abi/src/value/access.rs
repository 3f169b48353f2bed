//! Reading and editing a value. Whatever only reads goes through the view, so that a value and a
//! document answer alike.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use serde::{Serialize, Serializer};
use value_trait::ValueType;

use super::{Array, Object, Str, Value};
use crate::document::ValueRef;

impl<'v> Value<'v> {
    /// An empty array.
    pub fn array() -> Self {
        Self::Array(Array::new())
    }

    /// An empty object.
    pub fn object() -> Self {
        Self::Object(Object::new())
    }

    /// The view of this value, which is what code that only reads should ask for.
    #[inline]
    pub fn view(&self) -> ValueRef<'_> {
        self.into()
    }

    /// Returns the type as value-trait names it; see [`ValueRef::value_type`].
    pub fn value_type(&self) -> ValueType {
        self.view().value_type()
    }

    /// Whether this is `null`.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The truth value, if it is one.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        self.view().as_bool()
    }

    /// The integer, if it is one and fits.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        self.view().as_i64()
    }

    /// The integer, if it is one and not negative.
    #[inline]
    pub fn as_u64(&self) -> Option<u64> {
        self.view().as_u64()
    }

    /// Returns the float, or the float nearest to a number that is kept as text; see
    /// [`ValueRef::as_f64`].
    #[inline]
    pub fn as_f64(&self) -> Option<f64> {
        self.view().as_f64()
    }

    /// Returns the text of a number that is kept as text; see [`ValueRef::as_number_text`].
    #[inline]
    pub fn as_number_text(&self) -> Option<&str> {
        self.view().as_number_text()
    }

    /// Returns the number, rounded to a float if it is an integer; see [`ValueRef::cast_f64`].
    #[inline]
    pub fn cast_f64(&self) -> Option<f64> {
        self.view().cast_f64()
    }

    /// The text, if it is text.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        self.view().as_str()
    }

    /// The binary data, if it is such.
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.view().as_bytes()
    }

    /// The array, if it is one.
    #[inline]
    pub fn as_array(&self) -> Option<&Array<'v>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The array to be edited, if it is one.
    #[inline]
    pub fn as_array_mut(&mut self) -> Option<&mut Array<'v>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The object, if it is one.
    #[inline]
    pub fn as_object(&self) -> Option<&Object<'v>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The object to be edited, if it is one.
    #[inline]
    pub fn as_object_mut(&mut self) -> Option<&mut Object<'v>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The value of a key, if this is an object that has it.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value<'v>> {
        self.as_object()?.get(key)
    }

    /// The value of a key to be edited, if this is an object that has it.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'v>> {
        self.as_object_mut()?.get_mut(key)
    }

    /// The element at an index, if this is an array that is long enough.
    #[inline]
    pub fn get_idx(&self, index: usize) -> Option<&Value<'v>> {
        self.as_array()?.get(index)
    }

    /// The element at an index to be edited, if this is an array that is long enough.
    #[inline]
    pub fn get_idx_mut(&mut self, index: usize) -> Option<&mut Value<'v>> {
        self.as_array_mut()?.get_mut(index)
    }

    /// Sets the value of a key and returns what it replaces. Gives the value back if this is no
    /// object.
    pub fn insert(
        &mut self,
        key: impl Into<Str<'v>>,
        value: impl Into<Value<'v>>,
    ) -> Result<Option<Value<'v>>, Value<'v>> {
        match self {
            Self::Object(object) => Ok(object.insert(key, value)),
            _ => Err(value.into()),
        }
    }

    /// Takes a key and its value out, if this is an object that has it.
    pub fn remove(&mut self, key: &str) -> Option<Value<'v>> {
        self.as_object_mut()?.remove(key)
    }

    /// Takes the value, leaving `null`.
    #[must_use]
    pub fn take(&mut self) -> Value<'v> {
        std::mem::take(self)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Eq for Value<'_> {}

impl PartialEq<ValueRef<'_>> for Value<'_> {
    fn eq(&self, other: &ValueRef<'_>) -> bool {
        self.view() == *other
    }
}

impl PartialEq<Value<'_>> for ValueRef<'_> {
    fn eq(&self, other: &Value<'_>) -> bool {
        *self == other.view()
    }
}

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.view().cmp(&other.view())
    }
}

impl Hash for Value<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.view().hash(state);
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view().serialize(serializer)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}
