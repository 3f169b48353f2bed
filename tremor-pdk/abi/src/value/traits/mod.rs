//! Implementations of the traits of the crate value-trait, so that generic code works with the values of this crate.

mod containers;

use std::io::{self, Write};

use value_trait::{
    ValueBuilder, ValueType,
    base::{
        TypedCustomValue, TypedValue, ValueAsArray, ValueAsMutArray, ValueAsMutObject,
        ValueAsObject, ValueAsScalar, ValueIntoArray, ValueIntoObject, ValueIntoString, Writable,
    },
};

use super::{Array, Object, Str, Value};
use crate::document::ValueRef;

/// Implements the traits that values and views share, with the inherent methods of the same names.
macro_rules! typed_scalars {
    ($($type:ty),*) => {$(
        impl ValueAsScalar for $type {
            #[inline]
            fn as_null(&self) -> Option<()> {
                (*self).is_null().then_some(())
            }

            #[inline]
            fn as_bool(&self) -> Option<bool> {
                (*self).as_bool()
            }

            #[inline]
            fn as_i64(&self) -> Option<i64> {
                (*self).as_i64()
            }

            #[inline]
            fn as_u64(&self) -> Option<u64> {
                (*self).as_u64()
            }

            #[inline]
            fn as_f64(&self) -> Option<f64> {
                (*self).as_f64()
            }

            #[inline]
            fn as_str(&self) -> Option<&str> {
                (*self).as_str()
            }
        }

        impl TypedValue for $type {
            fn value_type(&self) -> ValueType {
                (*self).value_type()
            }
        }

        impl TypedCustomValue for $type {
            /// Returns whether value-trait has no type for the value: binary data, and numbers that exceed the range of
            /// floats.
            fn is_custom(&self) -> bool {
                matches!((*self).value_type(), ValueType::Custom(_))
            }
        }
    )*};
}

typed_scalars!(Value<'_>, ValueRef<'_>);

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

/// Writes the same text as `Display`; floats that are not finite are `null`.
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

#[cfg(test)]
mod tests {
    use value_trait::prelude::*;

    /// Adds one to the level of an event, with methods of the traits only.
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
    fn values_are_written_as_json() {
        let value = crate::literal!({ "a": [1, null], "b": {} });
        let mut written = Vec::new();
        value.write(&mut written).expect("writing to a vector cannot fail");
        assert_eq!(written, value.encode().as_bytes());
        assert_eq!(value.encode_pp(), "{\n  \"a\": [\n    1,\n    null\n  ],\n  \"b\": {}\n}");
    }
}
