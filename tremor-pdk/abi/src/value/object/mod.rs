//! Objects of values.

mod hash;
mod index;
mod iter;

use std::{borrow::Borrow, fmt, hash::Hash};

use abi_stable::{
    StableAbi,
    std_types::{RBox, ROption, RVec},
};

use self::index::Index;
pub use self::iter::{IntoIter, Iter, IterMut};
use super::{Str, Value, deep};
use crate::document::equal;

/// Maximum number of keys of an object without an index, in which lookups compare each key.
const LINEAR: usize = 32;

/// A map from text keys to values, in the order in which the keys were first inserted.
///
/// # Memory layout
/// An object is a pointer to a body, which contains an array of entries; each entry is a key and its value. In an
/// object of up to 32 keys, a lookup compares the keys one after the other, which is faster than a hash map at that
/// size. A larger object also has an index, which maps a seeded hash of a key to its position. Iteration reads the
/// array of entries in order.
#[repr(C)]
#[derive(Default, StableAbi)]
pub struct Object<'v>(RBox<Body<'v>>);

#[repr(C)]
#[derive(Default, StableAbi)]
struct Body<'v> {
    entries: RVec<Entry<'v>>,
    /// The index of the keys; `RNone` if there are at most [`LINEAR`] entries.
    index: ROption<Index>,
}

#[repr(C)]
#[derive(Clone, StableAbi)]
struct Entry<'v> {
    key: Str<'v>,
    value: Value<'v>,
}

impl Entry<'_> {
    #[inline]
    fn is_of(&self, key: &str) -> bool {
        equal(self.key.as_bytes(), key.as_bytes())
    }
}

impl<'v> Object<'v> {
    /// Bytes that an object allocates in addition to its entries.
    pub(in crate::value) const HEAP: usize = size_of::<Body<'static>>();

    /// Creates an empty object.
    #[inline]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Creates an empty object with capacity for `capacity` keys.
    #[inline]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(RBox::new(Body { entries: RVec::with_capacity(capacity), index: ROption::RNone }))
    }

    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Returns whether the object has no key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    /// Returns the value of `key`.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value<'v>> {
        let Body { entries, index } = &*self.0;
        let entry = match index {
            ROption::RNone => entries.iter().find(|entry| entry.is_of(key)),
            ROption::RSome(index) => entries.get(index.find(key, |at| entries[at].is_of(key))?),
        };
        entry.map(|entry| &entry.value)
    }

    /// Returns the value of `key` for editing.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'v>> {
        self.position(key).map(|position| &mut self.0.entries[position].value)
    }

    /// Returns whether the object has the key `key`.
    #[inline]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets the value of a key and returns the previous value. An existing key keeps its position; a new key is
    /// appended.
    #[inline]
    pub fn insert(
        &mut self,
        key: impl Into<Str<'v>>,
        value: impl Into<Value<'v>>,
    ) -> Option<Value<'v>> {
        let key = key.into();
        let Body { entries, index } = &mut *self.0;
        let old = match index {
            ROption::RNone => entries.iter_mut().find(|entry| entry.is_of(&key)),
            ROption::RSome(index) => {
                let position = index.find(&key, |at| entries[at].is_of(&key));
                position.and_then(|position| entries.get_mut(position))
            }
        };
        if let Some(old) = old {
            return Some(std::mem::replace(&mut old.value, value.into()));
        }
        self.insert_nocheck(key, value);
        None
    }

    /// Returns the value of a key for editing. A missing key is appended first, with the result of `value`.
    pub fn get_or_insert_with(
        &mut self,
        key: &str,
        value: impl FnOnce() -> Value<'v>,
    ) -> &mut Value<'v> {
        let position = self.position(key).unwrap_or_else(|| {
            self.insert_nocheck(key.to_owned(), value());
            self.len() - 1
        });
        self.at_mut(position)
    }

    /// Appends a key without checking whether it exists. If the key exists, lookups return one of the two values, and
    /// iteration returns both.
    #[inline]
    pub fn insert_nocheck(&mut self, key: impl Into<Str<'v>>, value: impl Into<Value<'v>>) {
        let Body { entries, index } = &mut *self.0;
        let entry = Entry { key: key.into(), value: value.into() };
        if let ROption::RSome(index) = index {
            index.insert(&entry.key, entries.len());
        }
        entries.push(entry);
        if entries.len() == LINEAR + 1 {
            self.reindex();
        }
    }

    /// Removes a key and returns its value. The other keys keep their order. The call moves all later entries and
    /// rebuilds the index, if there is one. To remove many keys, use [`Object::retain`].
    pub fn remove(&mut self, key: &str) -> Option<Value<'v>> {
        let position = self.position(key)?;
        self.remove_at(position)
    }

    /// Removes the keys for which `keep` returns `false`; the other keys keep their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Str<'v>, &Value<'v>) -> bool) {
        self.0.entries.retain(|entry| keep(&entry.key, &entry.value));
        self.reindex();
    }

    /// Returns an iterator over the keys and values, in order.
    #[inline]
    pub fn iter(&self) -> Iter<'_, 'v> {
        Iter(self.0.entries.iter())
    }

    /// Returns an iterator over the keys and the values for editing, in order.
    #[inline]
    pub fn iter_mut(&mut self) -> IterMut<'_, 'v> {
        IterMut(self.0.entries.iter_mut())
    }

    /// Returns an iterator over the keys, in order.
    #[inline]
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Str<'v>> + '_ {
        self.iter().map(|(key, _)| key)
    }

    /// Returns an iterator over the values, in order.
    #[inline]
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value<'v>> + '_ {
        self.iter().map(|(_, value)| value)
    }

    /// Copies all borrowed data, and returns the owned object.
    pub fn into_static(self) -> Object<'static> {
        let mut owned = Object::with_capacity(self.len());
        for (key, value) in self {
            owned.insert_nocheck(key.into_static(), value.into_static());
        }
        owned
    }

    #[inline]
    fn position(&self, key: &str) -> Option<usize> {
        let Body { entries, index } = &*self.0;
        match index {
            ROption::RNone => entries.iter().position(|entry| entry.is_of(key)),
            ROption::RSome(index) => index.find(key, |at| entries[at].is_of(key)),
        }
    }

    /// Returns the position of a key, in any borrowed form.
    pub(in crate::value) fn position_of<Q>(&self, key: &Q) -> Option<usize>
    where
        Str<'v>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Body { entries, index } = &*self.0;
        match index {
            ROption::RNone => entries.iter().position(|entry| entry.key.borrow() == key),
            ROption::RSome(index) => index.find_borrowed(key, |at| entries[at].key.borrow() == key),
        }
    }

    pub(in crate::value) fn at(&self, position: usize) -> &Value<'v> {
        &self.0.entries[position].value
    }

    pub(in crate::value) fn at_mut(&mut self, position: usize) -> &mut Value<'v> {
        &mut self.0.entries[position].value
    }

    pub(in crate::value) fn remove_at(&mut self, position: usize) -> Option<Value<'v>> {
        let entry = self.0.entries.try_remove(position)?;
        if self.0.index.is_some() {
            self.reindex();
        }
        Some(entry.value)
    }

    fn reindex(&mut self) {
        let Body { entries, index } = &mut *self.0;
        *index = if entries.len() > LINEAR {
            ROption::RSome(Index::new(entries.iter().map(|entry| entry.key.as_str())))
        } else {
            ROption::RNone
        };
    }
}

impl Clone for Object<'_> {
    fn clone(&self) -> Self {
        let entries = self.0.entries.clone();
        let mut clone = Self(RBox::new(Body { entries, index: ROption::RNone }));
        clone.reindex();
        clone
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        deep::dismantle(self.0.entries.iter_mut().map(|entry| &mut entry.value));
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'v, K: Into<Str<'v>>, V: Into<Value<'v>>> Extend<(K, V)> for Object<'v> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'v, K: Into<Str<'v>>, V: Into<Value<'v>>> FromIterator<(K, V)> for Object<'v> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut object = Self::with_capacity(entries.size_hint().0);
        object.extend(entries);
        object
    }
}

#[cfg(test)]
mod tests;
