//! Iterators over the entries of an object, in order.

use abi_stable::std_types::RVec;

use super::{Entry, Object};
use crate::value::{Str, Value};

/// An iterator over keys and values; see [`Object::iter`].
#[derive(Clone)]
pub struct Iter<'a, 'v>(pub(super) std::slice::Iter<'a, Entry<'v>>);

/// An iterator over keys and values for editing; see [`Object::iter_mut`].
pub struct IterMut<'a, 'v>(pub(super) std::slice::IterMut<'a, Entry<'v>>);

/// An iterator that moves the keys and values out of an object.
pub struct IntoIter<'v>(<RVec<Entry<'v>> as IntoIterator>::IntoIter);

/// Implements iterators that split entries into keys and values.
macro_rules! take_apart {
    ($($name:ident<$($lifetime:lifetime),+>: $item:ty, |$entry:ident| $parts:expr;)*) => {$(
        impl<$($lifetime),+> Iterator for $name<$($lifetime),+> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                self.0.next().map(|$entry| $parts)
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<$($lifetime),+> ExactSizeIterator for $name<$($lifetime),+> {}
    )*};
}

take_apart! {
    Iter<'a, 'v>: (&'a Str<'v>, &'a Value<'v>), |entry| (&entry.key, &entry.value);
    IterMut<'a, 'v>: (&'a Str<'v>, &'a mut Value<'v>), |entry| (&entry.key, &mut entry.value);
    IntoIter<'v>: (Str<'v>, Value<'v>), |entry| (entry.key, entry.value);
}

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
