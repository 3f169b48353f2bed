//! Reading and editing of values. Most methods that only read call those of [`ValueRef`], so that values and documents
//! behave in the same way.

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
    /// Creates an empty array.
    pub fn array() -> Self {
        Self::Array(Array::new())
    }

    /// Creates an empty object.
    pub fn object() -> Self {
        Self::Object(Object::new())
    }

    /// Returns a view of this value. For code that only reads, use [`ValueRef`] as the parameter type.
    #[inline]
    pub fn view(&self) -> ValueRef<'_> {
        self.into()
    }

    /// Returns the type as a type of the crate value-trait: see [`ValueRef::value_type`].
    pub fn value_type(&self) -> ValueType {
        self.view().value_type()
    }

    /// Returns whether the value is `null`.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the truth value, or `None` for another type.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        self.view().as_bool()
    }

    /// Returns the integer, or `None` if the value is not an integer or does not fit.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        self.view().as_i64()
    }

    /// Returns the integer, or `None` if the value is not an integer, is negative or does not fit.
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

    /// Returns the text, or `None` for another type.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        self.view().as_str()
    }

    /// Returns the binary data, or `None` for another type.
    #[inline]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.view().as_bytes()
    }

    /// Returns the array, or `None` for another type.
    #[inline]
    pub fn as_array(&self) -> Option<&Array<'v>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Returns the array for editing, or `None` for another type.
    #[inline]
    pub fn as_array_mut(&mut self) -> Option<&mut Array<'v>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Returns the object, or `None` for another type.
    #[inline]
    pub fn as_object(&self) -> Option<&Object<'v>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the object for editing, or `None` for another type.
    #[inline]
    pub fn as_object_mut(&mut self) -> Option<&mut Object<'v>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the value of `key`, or `None` if this is not an object or lacks the key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value<'v>> {
        self.as_object()?.get(key)
    }

    /// Returns the value of `key` for editing, or `None` if this is not an object or lacks the key.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'v>> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Returns the element at `index`, or `None` if this is not an array or is too short.
    #[inline]
    pub fn get_idx(&self, index: usize) -> Option<&Value<'v>> {
        self.as_array()?.get(index)
    }

    /// Returns the element at `index` for editing, or `None` if this is not an array or is too short.
    #[inline]
    pub fn get_idx_mut(&mut self, index: usize) -> Option<&mut Value<'v>> {
        self.as_array_mut()?.get_mut(index)
    }

    /// Sets the value of a key and returns the previous value. Returns the new value as an error if this is not an
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

    /// Removes a key and returns its value, or `None` if this is not an object or lacks the key.
    pub fn remove(&mut self, key: &str) -> Option<Value<'v>> {
        self.as_object_mut()?.remove(key)
    }

    /// Returns the value and replaces it with `null`.
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
