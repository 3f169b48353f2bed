//! The array of a value.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use abi_stable::{
    StableAbi,
    std_types::{RBox, RVec},
};

use super::{Value, deep};

/// An array of values: 16 bytes and two allocations, which is what keeps a value at 32 bytes. It
/// reads and edits as a slice.
#[repr(C)]
#[derive(Clone, Default, StableAbi)]
pub struct Array<'v>(RBox<RVec<Value<'v>>>);

impl<'v> Array<'v> {
    /// What an array allocates besides its elements, in bytes.
    pub(super) const HEAP: usize = size_of::<RVec<Value<'static>>>();

    /// An empty array.
    #[inline]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty array with room for `capacity` elements.
    #[inline]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(RBox::new(RVec::with_capacity(capacity)))
    }

    /// Appends an element.
    #[inline]
    pub fn push(&mut self, value: impl Into<Value<'v>>) {
        self.0.push(value.into());
    }

    /// Takes the last element off.
    #[inline]
    pub fn pop(&mut self) -> Option<Value<'v>> {
        self.0.pop()
    }

    /// Puts an element before the one at `index`, or at the end where `index` is the length.
    /// Gives the value back if `index` is beyond that.
    pub fn insert(&mut self, index: usize, value: Value<'v>) -> Result<(), Value<'v>> {
        if index > self.len() {
            return Err(value);
        }
        self.0.insert(index, value);
        Ok(())
    }

    /// Takes the element at `index` out; those after it move up.
    pub fn remove(&mut self, index: usize) -> Option<Value<'v>> {
        self.0.try_remove(index)
    }

    /// The same array, with everything borrowed copied.
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
