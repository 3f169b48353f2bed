//! value-trait: code written against its traits works on ours.

use std::{
    borrow::Borrow,
    hash::Hash,
    io::{self, Write},
    slice::SliceIndex,
};

use value_trait::{
    ValueBuilder, ValueType,
    base::{
        TypedCustomValue, TypedValue, ValueAsArray, ValueAsMutArray, ValueAsMutObject,
        ValueAsObject, ValueAsScalar, ValueIntoArray, ValueIntoObject, ValueIntoString, Writable,
    },
    prelude::{ArrayMut, ArrayTrait, Indexed, IndexedMut, ObjectMut, ObjectTrait},
};

use super::{Array, Object, Str, Value};
use crate::document::ValueRef;

impl ValueAsScalar for Value<'_> {
    #[inline]
    fn as_null(&self) -> Option<()> {
        self.is_null().then_some(())
    }

    #[inline]
    fn as_bool(&self) -> Option<bool> {
        Value::as_bool(self)
    }

    #[inline]
    fn as_i64(&self) -> Option<i64> {
        Value::as_i64(self)
    }

    #[inline]
    fn as_u64(&self) -> Option<u64> {
        Value::as_u64(self)
    }

    #[inline]
    fn as_f64(&self) -> Option<f64> {
        Value::as_f64(self)
    }

    #[inline]
    fn as_str(&self) -> Option<&str> {
        Value::as_str(self)
    }
}

impl TypedValue for Value<'_> {
    fn value_type(&self) -> ValueType {
        Value::value_type(self)
    }
}

impl TypedCustomValue for Value<'_> {
    /// Binary data has no type of its own in value-trait.
    fn is_custom(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

impl<'v> ValueAsArray for Value<'v> {
    type Array = Array<'v>;

    #[inline]
    fn as_array(&self) -> Option<&Array<'v>> {
        Value::as_array(self)
    }
}

impl<'v> ValueAsMutArray for Value<'v> {
    type Array = Array<'v>;

    #[inline]
    fn as_array_mut(&mut self) -> Option<&mut Array<'v>> {
        Value::as_array_mut(self)
    }
}

impl<'v> ValueAsObject for Value<'v> {
    type Object = Object<'v>;

    #[inline]
    fn as_object(&self) -> Option<&Object<'v>> {
        Value::as_object(self)
    }
}

impl<'v> ValueAsMutObject for Value<'v> {
    type Object = Object<'v>;

    #[inline]
    fn as_object_mut(&mut self) -> Option<&mut Object<'v>> {
        Value::as_object_mut(self)
    }
}

impl<'v> ValueIntoString for Value<'v> {
    type String = Str<'v>;

    fn into_string(self) -> Option<Str<'v>> {
        self.try_into().ok()
    }
}

impl<'v> ValueIntoArray for Value<'v> {
    type Array = Array<'v>;

    fn into_array(self) -> Option<Array<'v>> {
        self.try_into().ok()
    }
}

impl<'v> ValueIntoObject for Value<'v> {
    type Object = Object<'v>;

    fn into_object(self) -> Option<Object<'v>> {
        self.try_into().ok()
    }
}

impl<'v> ValueBuilder<'v> for Value<'v> {
    fn array_with_capacity(capacity: usize) -> Self {
        Self::Array(Array::with_capacity(capacity))
    }

    fn object_with_capacity(capacity: usize) -> Self {
        Self::Object(Object::with_capacity(capacity))
    }

    fn null() -> Self {
        Self::Null
    }
}

/// As `Display`, with what is said there about floats that are not finite.
impl Writable for Value<'_> {
    fn encode(&self) -> String {
        self.to_string()
    }

    fn encode_pp(&self) -> String {
        format!("{self:#}")
    }

    fn write<'writer, W: 'writer + Write>(&self, writer: &mut W) -> io::Result<()> {
        write!(writer, "{self}")
    }

    fn write_pp<'writer, W: 'writer + Write>(&self, writer: &mut W) -> io::Result<()> {
        write!(writer, "{self:#}")
    }
}

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

impl ValueAsScalar for ValueRef<'_> {
    #[inline]
    fn as_null(&self) -> Option<()> {
        self.is_null().then_some(())
    }

    #[inline]
    fn as_bool(&self) -> Option<bool> {
        ValueRef::as_bool(*self)
    }

    #[inline]
    fn as_i64(&self) -> Option<i64> {
        ValueRef::as_i64(*self)
    }

    #[inline]
    fn as_u64(&self) -> Option<u64> {
        ValueRef::as_u64(*self)
    }

    #[inline]
    fn as_f64(&self) -> Option<f64> {
        ValueRef::as_f64(*self)
    }

    #[inline]
    fn as_str(&self) -> Option<&str> {
        ValueRef::as_str(*self)
    }
}

impl TypedCustomValue for ValueRef<'_> {
    fn is_custom(&self) -> bool {
        self.as_bytes().is_some()
    }
}

#[cfg(test)]
mod tests {
    use value_trait::prelude::*;

    use super::Value;

    /// Written against the traits alone.
    fn raise_level<'v, V>(event: &mut V) -> Option<i64>
    where
        V: ValueBuilder<'v>
            + MutableObject<Key = super::Str<'v>, Target = V>
            + ValueObjectAccessAsScalar<Key = super::Str<'v>>,
    {
        let level = event.get_i64("level")?;
        event.insert("level", level + 1).ok()?;
        event.get_i64("level")
    }

    #[test]
    fn generic_code_reads_and_edits() {
        let mut event = crate::literal!({ "level": 3, "tags": ["a"] });
        assert_eq!(raise_level(&mut event), Some(4));
        assert_eq!(event.get_array("tags").map(ArrayTrait::len), Some(1));
        assert_eq!(event.try_get_str("level").map_err(|error| error.got), Err(ValueType::I64));
        assert_eq!(event.try_remove("tags").map(|tags| tags.encode()), Some(r#"["a"]"#.into()));
    }

    #[test]
    fn generic_lookup_uses_the_index_of_a_large_object() {
        let mut object = super::Object::new();
        for n in 0..100 {
            ObjectMut::insert(&mut object, n.to_string(), n);
        }
        assert_eq!(ObjectTrait::get(&object, "77"), Some(&Value::I64(77)));
        assert_eq!(ObjectMut::remove(&mut object, "77"), Some(Value::I64(77)));
        assert_eq!(ObjectTrait::get(&object, "77"), None);
        assert_eq!(ObjectTrait::len(&object), 99);
    }

    #[test]
    fn values_are_written_as_json() {
        let value = crate::literal!({ "a": [1, null], "b": {} });
        let mut written = Vec::new();
        value.write(&mut written).expect("a vector takes everything");
        assert_eq!(written, value.encode().as_bytes());
        assert_eq!(value.encode_pp(), "{\n  \"a\": [\n    1,\n    null\n  ],\n  \"b\": {}\n}");
    }
}
