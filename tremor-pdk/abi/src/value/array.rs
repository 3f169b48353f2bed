//! Arrays of values.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use abi_stable::{
    StableAbi,
    std_types::{RBox, RVec},
};

use super::{Value, deep};

/// An array of values. Dereferences to a slice. The array is boxed, which takes a second allocation, so that a
/// [`Value`] has only 32 bytes.
#[repr(C)]
#[derive(Clone, Default, StableAbi)]
pub struct Array<'v>(RBox<RVec<Value<'v>>>);

impl<'v> Array<'v> {
    /// Bytes that an array allocates in addition to its elements.
    pub(super) const HEAP: usize = size_of::<RVec<Value<'static>>>();

    /// Creates an empty array.
    #[inline]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty array with capacity for `capacity` elements.
    #[inline]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(RBox::new(RVec::with_capacity(capacity)))
    }

    /// Appends an element.
    #[inline]
    pub fn push(&mut self, value: impl Into<Value<'v>>) {
        self.0.push(value.into());
    }

    /// Removes and returns the last element.
    #[inline]
    pub fn pop(&mut self) -> Option<Value<'v>> {
        self.0.pop()
    }

    /// Inserts an element at `index`; later elements move towards the end. Returns the value as an error if `index` is
    /// larger than the length.
    pub fn insert(&mut self, index: usize, value: Value<'v>) -> Result<(), Value<'v>> {
        if index > self.len() {
            return Err(value);
        }
        self.0.insert(index, value);
        Ok(())
    }

    /// Removes and returns the element at `index`; later elements move towards the beginning.
    pub fn remove(&mut self, index: usize) -> Option<Value<'v>> {
        self.0.try_remove(index)
    }

    /// Copies all borrowed data, and returns the owned array.
    pub fn into_static(self) -> Array<'static> {
        self.into_iter().map(Value::into_static).collect()
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        deep::dismantle(self.iter_mut());
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'v> Deref for Array<'v> {
    type Target = [Value<'v>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.0.as_slice()
    }
}

impl DerefMut for Array<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.as_mut_slice()
    }
}

impl<'v> From<Vec<Value<'v>>> for Array<'v> {
    fn from(values: Vec<Value<'v>>) -> Self {
        Self(RBox::new(values.into()))
    }
}

impl<'v, V: Into<Value<'v>>> FromIterator<V> for Array<'v> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        values.into_iter().map(Into::into).collect::<Vec<_>>().into()
    }
}

impl<'v> IntoIterator for Array<'v> {
    type Item = Value<'v>;
    type IntoIter = <RVec<Value<'v>> as IntoIterator>::IntoIter;

    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut *self.0).into_iter()
    }
}

impl<'a, 'v> IntoIterator for &'a Array<'v> {
    type Item = &'a Value<'v>;
    type IntoIter = std::slice::Iter<'a, Value<'v>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
