//! Views of arrays and objects.

use super::{Key, Node, ValueRef, subtree::Subtree};
use crate::value::{Array, Object, Value};

/// A view of an array.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a>(Elements<'a>);

#[derive(Clone, Copy)]
enum Elements<'a> {
    Flat(Subtree<'a>),
    Tree(&'a [Value<'a>]),
}

impl<'a> ArrayRef<'a> {
    #[inline]
    pub(super) fn flat(subtree: Subtree<'a>) -> Self {
        Self(Elements::Flat(subtree))
    }

    #[inline]
    pub(super) fn tree(array: &'a Array<'_>) -> Self {
        Self(Elements::Tree(array))
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            Elements::Flat(subtree) => (subtree.head().len() as usize).min(subtree.body().len()),
            Elements::Tree(array) => array.len(),
        }
    }

    /// Returns whether the array has no element.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the element at `index`; see [`ValueRef::get_idx`].
    #[inline]
    pub fn get(self, index: usize) -> Option<ValueRef<'a>> {
        match self.0 {
            Elements::Flat(_) => self.iter().nth(index),
            Elements::Tree(array) => array.get(index).map(ValueRef::from),
        }
    }

    /// Returns an iterator over the elements, in order.
    #[inline]
    pub fn iter(self) -> ArrayIter<'a> {
        ArrayIter(match self.0 {
            Elements::Flat(subtree) => {
                ArrayItems::Flat { subtree, rest: subtree.body(), left: self.len() }
            }
            Elements::Tree(array) => ArrayItems::Tree(array.iter()),
        })
    }
}

impl<'a> IntoIterator for ArrayRef<'a> {
    type Item = ValueRef<'a>;
    type IntoIter = ArrayIter<'a>;

    #[inline]
    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

/// An iterator over the elements of an [`ArrayRef`].
#[derive(Clone)]
pub struct ArrayIter<'a>(ArrayItems<'a>);

#[derive(Clone)]
enum ArrayItems<'a> {
    Flat { subtree: Subtree<'a>, rest: &'a [Node], left: usize },
    Tree(std::slice::Iter<'a, Value<'a>>),
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<ValueRef<'a>> {
        match &mut self.0 {
            ArrayItems::Flat { subtree, rest, left } => {
                *left = left.checked_sub(1)?;
                let (element, after) = subtree.split(rest)?;
                *rest = after;
                Some(ValueRef::of_subtree(element))
            }
            ArrayItems::Tree(values) => values.next().map(ValueRef::from),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            ArrayItems::Flat { left, .. } => (0, Some(*left)),
            ArrayItems::Tree(values) => values.size_hint(),
        }
    }
}

/// A view of an object.
#[derive(Clone, Copy)]
pub struct ObjectRef<'a>(Entries<'a>);

#[derive(Clone, Copy)]
enum Entries<'a> {
    Flat(Subtree<'a>),
    Tree(&'a Object<'a>),
}

impl<'a> ObjectRef<'a> {
    #[inline]
    pub(super) fn flat(subtree: Subtree<'a>) -> Self {
        Self(Entries::Flat(subtree))
    }

    #[inline]
    pub(super) fn tree(object: &'a Object<'_>) -> Self {
        Self(Entries::Tree(object))
    }

    /// Returns the number of keys.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            Entries::Flat(subtree) => (subtree.head().len() as usize).min(subtree.body().len() / 2),
            Entries::Tree(object) => object.len(),
        }
    }

    /// Returns whether the object has no key.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the value of `key`.
    #[inline]
    pub fn get(self, key: &str) -> Option<ValueRef<'a>> {
        self.get_key(Key::new(key))
    }

    /// Returns the value of a prepared key, as [`ObjectRef::get`] does.
    #[inline]
    pub fn get_key(self, key: Key<'_>) -> Option<ValueRef<'a>> {
        match self.0 {
            Entries::Flat(subtree) => ValueRef::of_subtree(subtree).get_key(key),
            Entries::Tree(object) => object.get(key.as_str()).map(ValueRef::from),
        }
    }

    /// Returns an iterator over the keys and values, in order. In an invalid document, the iterator ends before the
    /// first key that is not text.
    #[inline]
    pub fn iter(self) -> ObjectIter<'a> {
        ObjectIter(match self.0 {
            Entries::Flat(subtree) => {
                ObjectItems::Flat { subtree, rest: subtree.body(), left: self.len() }
            }
            Entries::Tree(object) => ObjectItems::Tree(object.iter()),
        })
    }
}

impl<'a> IntoIterator for ObjectRef<'a> {
    type Item = (&'a str, ValueRef<'a>);
    type IntoIter = ObjectIter<'a>;

    #[inline]
    fn into_iter(self) -> ObjectIter<'a> {
        self.iter()
    }
}

/// An iterator over the keys and values of an [`ObjectRef`].
#[derive(Clone)]
pub struct ObjectIter<'a>(ObjectItems<'a>);

#[derive(Clone)]
enum ObjectItems<'a> {
    Flat { subtree: Subtree<'a>, rest: &'a [Node], left: usize },
    Tree(crate::value::Iter<'a, 'a>),
}

impl<'a> Iterator for ObjectIter<'a> {
    type Item = (&'a str, ValueRef<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            ObjectItems::Flat { subtree, rest, left } => {
                *left = left.checked_sub(1)?;
                let (key, after) = rest.split_first()?;
                let (value, after) = subtree.split(after)?;
                *rest = after;
                Some((subtree.text(*key)?, ValueRef::of_subtree(value)))
            }
            ObjectItems::Tree(entries) => {
                entries.next().map(|(key, value)| (key.as_str(), ValueRef::from(value)))
            }
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            ObjectItems::Flat { left, .. } => (0, Some(*left)),
            ObjectItems::Tree(entries) => entries.size_hint(),
        }
    }
}
