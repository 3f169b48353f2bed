//! Implementations of the traits of the crate value-trait for arrays and objects.

use std::{borrow::Borrow, hash::Hash, slice::SliceIndex};

use value_trait::prelude::{ArrayMut, ArrayTrait, Indexed, IndexedMut, ObjectMut, ObjectTrait};

use crate::value::{Array, Object, Str, Value};

impl<'v> ArrayTrait for Array<'v> {
    type Element = Value<'v>;

    fn iter(&self) -> Box<dyn Iterator<Item = &Value<'v>> + '_> {
        Box::new(<[Value<'v>]>::iter(self))
    }

    fn len(&self) -> usize {
        <[Value<'v>]>::len(self)
    }
}

impl<'v> ArrayMut for Array<'v> {
    type Element = Value<'v>;

    fn pop(&mut self) -> Option<Value<'v>> {
        Array::pop(self)
    }

    fn push(&mut self, element: Value<'v>) {
        Array::push(self, element);
    }
}

impl<'v, I: SliceIndex<[Value<'v>]>> Indexed<I> for Array<'v> {
    type Element = I::Output;

    fn get(&self, index: I) -> Option<&I::Output> {
        <[Value<'v>]>::get(self, index)
    }
}

impl<'v, I: SliceIndex<[Value<'v>]>> IndexedMut<I> for Array<'v> {
    type Element = I::Output;

    fn get_mut(&mut self, index: I) -> Option<&mut I::Output> {
        <[Value<'v>]>::get_mut(self, index)
    }
}

impl<'v> ObjectTrait for Object<'v> {
    type Key = Str<'v>;
    type Element = Value<'v>;

    fn get<Q>(&self, key: &Q) -> Option<&Value<'v>>
    where
        Str<'v>: Borrow<Q>,
        Q: ?Sized + Hash + Eq + Ord,
    {
        self.position_of(key).map(|position| self.at(position))
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (&Str<'v>, &Value<'v>)> + '_> {
        Box::new(Object::iter(self))
    }

    fn keys(&self) -> Box<dyn Iterator<Item = &Str<'v>> + '_> {
        Box::new(Object::keys(self))
    }

    fn values(&self) -> Box<dyn Iterator<Item = &Value<'v>> + '_> {
        Box::new(Object::values(self))
    }

    fn len(&self) -> usize {
        Object::len(self)
    }
}

impl<'v> ObjectMut for Object<'v> {
    type Key = Str<'v>;
    type Element = Value<'v>;

    fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut Value<'v>>
    where
        Str<'v>: Borrow<Q>,
        Q: ?Sized + Hash + Eq + Ord,
    {
        self.position_of(key).map(|position| self.at_mut(position))
    }

    fn insert<K, V>(&mut self, key: K, value: V) -> Option<Value<'v>>
    where
        Str<'v>: From<K> + Hash + Eq,
        V: Into<Value<'v>>,
    {
        Object::insert(self, Str::from(key), value)
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<Value<'v>>
    where
        Str<'v>: Borrow<Q>,
        Q: ?Sized + Hash + Eq + Ord,
    {
        self.position_of(key).and_then(|position| self.remove_at(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_lookup_uses_the_index_of_a_large_object() {
        let mut object = Object::new();
        for n in 0..100 {
            assert_eq!(ObjectMut::insert(&mut object, n.to_string(), n), None);
        }
        assert_eq!(ObjectTrait::get(&object, "77"), Some(&Value::I64(77)));
        assert_eq!(ObjectMut::remove(&mut object, "77"), Some(Value::I64(77)));
        assert_eq!(ObjectTrait::get(&object, "77"), None);
        assert_eq!(ObjectTrait::len(&object), 99);
    }
}
