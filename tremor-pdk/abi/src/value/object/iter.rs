//! Iterators over the entries of an object, in their order.

use abi_stable::std_types::RVec;

use super::{Entry, Object};
use crate::value::{Str, Value};

/// Keys and values; see [`Object::iter`].
#[derive(Clone)]
pub struct Iter<'a, 'v>(pub(super) std::slice::Iter<'a, Entry<'v>>);

impl<'a, 'v> Iterator for Iter<'a, 'v> {
    type Item = (&'a Str<'v>, &'a Value<'v>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| (&entry.key, &entry.value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_, '_> {}

/// Keys and values to be edited; see [`Object::iter_mut`].
pub struct IterMut<'a, 'v>(pub(super) std::slice::IterMut<'a, Entry<'v>>);

impl<'a, 'v> Iterator for IterMut<'a, 'v> {
    type Item = (&'a Str<'v>, &'a mut Value<'v>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| (&entry.key, &mut entry.value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IterMut<'_, '_> {}

/// The entries of an object taken apart.
pub struct IntoIter<'v>(<RVec<Entry<'v>> as IntoIterator>::IntoIter);

impl<'v> Iterator for IntoIter<'v> {
    type Item = (Str<'v>, Value<'v>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| (entry.key, entry.value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IntoIter<'_> {}

impl<'v> IntoIterator for Object<'v> {
    type Item = (Str<'v>, Value<'v>);
    type IntoIter = IntoIter<'v>;

    fn into_iter(mut self) -> IntoIter<'v> {
        IntoIter(std::mem::take(&mut self.0.entries).into_iter())
    }
}

impl<'a, 'v> IntoIterator for &'a Object<'v> {
    type Item = (&'a Str<'v>, &'a Value<'v>);
    type IntoIter = Iter<'a, 'v>;

    fn into_iter(self) -> Iter<'a, 'v> {
        self.iter()
    }
}

impl<'a, 'v> IntoIterator for &'a mut Object<'v> {
    type Item = (&'a Str<'v>, &'a mut Value<'v>);
    type IntoIter = IterMut<'a, 'v>;

    fn into_iter(self) -> IterMut<'a, 'v> {
        self.iter_mut()
    }
}
