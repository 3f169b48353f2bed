//! Conversion from the types of std, and back.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use value_trait::{ExtendedValueType, StaticNode, TryTypeError, ValueType};

use super::{Array, Bytes, Number, Object, Str, Value};
use crate::document::{BYTES, ValueRef};

macro_rules! from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl<'v> From<$from> for Value<'v> {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Bool,
    i8 => I64, i16 => I64, i32 => I64, i64 => I64,
    u8 => I64, u16 => I64, u32 => I64,
    f32 => F64, f64 => F64,
    &'v str => String, String => String, Cow<'v, str> => String, Str<'v> => String,
    &'v [u8] => Bytes, Vec<u8> => Bytes, Cow<'v, [u8]> => Bytes, Bytes<'v> => Bytes,
    Number<'v> => Number,
    Array<'v> => Array, Vec<Value<'v>> => Array,
    Object<'v> => Object,
}

impl From<u64> for Value<'_> {
    /// Converts to [`Value::I64`] if the integer fits, as in a document.
    #[inline]
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::U64(value), Self::I64)
    }
}

impl From<usize> for Value<'_> {
    #[inline]
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<()> for Value<'_> {
    #[inline]
    fn from((): ()) -> Self {
        Self::Null
    }
}

impl From<char> for Value<'_> {
    fn from(value: char) -> Self {
        String::from(value).into()
    }
}

impl From<StaticNode> for Value<'_> {
    fn from(value: StaticNode) -> Self {
        match value {
            StaticNode::Null => Self::Null,
            StaticNode::Bool(value) => Self::Bool(value),
            StaticNode::I64(value) => Self::I64(value),
            StaticNode::U64(value) => value.into(),
            StaticNode::F64(value) => Self::F64(value),
        }
    }
}

impl<'v, V: Into<Value<'v>>> From<Option<V>> for Value<'v> {
    /// Converts `None` to `null`.
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'v, K: Into<Str<'v>>, V: Into<Value<'v>>> From<BTreeMap<K, V>> for Value<'v> {
    fn from(entries: BTreeMap<K, V>) -> Self {
        Self::Object(entries.into_iter().collect())
    }
}

impl<'v, K: Into<Str<'v>>, V: Into<Value<'v>>, S> From<HashMap<K, V, S>> for Value<'v> {
    /// Converts to an object with an unspecified order of the keys.
    fn from(entries: HashMap<K, V, S>) -> Self {
        Self::Object(entries.into_iter().collect())
    }
}

impl<'v, V: Into<Value<'v>>> FromIterator<V> for Value<'v> {
    /// Collects the values in an array.
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        Self::Array(values.into_iter().collect())
    }
}

impl<'v, K: Into<Str<'v>>, V: Into<Value<'v>>> FromIterator<(K, V)> for Value<'v> {
    /// Collects the entries in an object.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self::Object(entries.into_iter().collect())
    }
}

/// Conversions from a view and from a value, with the accessors of a view.
macro_rules! try_into {
    ($($to:ty, $expected:expr, |$view:ident| $access:expr;)*) => {$(
        impl TryFrom<ValueRef<'_>> for $to {
            type Error = TryTypeError;

            fn try_from($view: ValueRef<'_>) -> Result<Self, TryTypeError> {
                $access.ok_or(TryTypeError { expected: $expected, got: $view.value_type() })
            }
        }

        impl TryFrom<&Value<'_>> for $to {
            type Error = TryTypeError;

            fn try_from(value: &Value<'_>) -> Result<Self, TryTypeError> {
                value.view().try_into()
            }
        }

        impl TryFrom<Value<'_>> for $to {
            type Error = TryTypeError;

            fn try_from(value: Value<'_>) -> Result<Self, TryTypeError> {
                value.view().try_into()
            }
        }
    )*};
}

const fn extended(which: ExtendedValueType) -> ValueType {
    ValueType::Extended(which)
}

try_into! {
    bool, ValueType::Bool, |view| view.as_bool();
    i8, extended(ExtendedValueType::I8), |view| view.as_i64().and_then(|n| n.try_into().ok());
    i16, extended(ExtendedValueType::I16), |view| view.as_i64().and_then(|n| n.try_into().ok());
    i32, extended(ExtendedValueType::I32), |view| view.as_i64().and_then(|n| n.try_into().ok());
    i64, ValueType::I64, |view| view.as_i64();
    u8, extended(ExtendedValueType::U8), |view| view.as_u64().and_then(|n| n.try_into().ok());
    u16, extended(ExtendedValueType::U16), |view| view.as_u64().and_then(|n| n.try_into().ok());
    u32, extended(ExtendedValueType::U32), |view| view.as_u64().and_then(|n| n.try_into().ok());
    u64, ValueType::U64, |view| view.as_u64();
    usize, extended(ExtendedValueType::Usize), |view| view.as_u64().and_then(|n| n.try_into().ok());
    f64, ValueType::F64, |view| view.cast_f64();
    String, ValueType::String, |view| view.as_str().map(str::to_owned);
    Vec<u8>, BYTES, |view| view.as_bytes().map(<[u8]>::to_vec);
}

impl<'a> TryFrom<ValueRef<'a>> for &'a str {
    type Error = TryTypeError;

    fn try_from(view: ValueRef<'a>) -> Result<Self, TryTypeError> {
        let got = view.value_type();
        view.as_str().ok_or(TryTypeError { expected: ValueType::String, got })
    }
}

/// Conversions from a value to its contents.
macro_rules! unwrap {
    ($($variant:ident($to:ident), $expected:expr;)*) => {$(
        impl<'v> TryFrom<Value<'v>> for $to<'v> {
            type Error = TryTypeError;

            fn try_from(value: Value<'v>) -> Result<Self, TryTypeError> {
                match value {
                    Value::$variant(inner) => Ok(inner),
                    other => Err(TryTypeError { expected: $expected, got: other.value_type() }),
                }
            }
        }
    )*};
}

unwrap! {
    String(Str), ValueType::String;
    Bytes(Bytes), BYTES;
    Array(Array), ValueType::Array;
    Object(Object), ValueType::Object;
}

/// Comparison of views and values with types of std.
macro_rules! eq {
    ($($other:ty, |$view:ident, $with:ident| $equal:expr;)*) => {$(
        impl PartialEq<$other> for ValueRef<'_> {
            fn eq(&self, $with: &$other) -> bool {
                let $view = *self;
                $equal
            }
        }

        impl PartialEq<$other> for Value<'_> {
            fn eq(&self, other: &$other) -> bool {
                self.view() == *other
            }
        }
    )*};
}

eq! {
    bool, |view, other| view.as_bool() == Some(*other);
    i32, |view, other| view == Value::from(*other).view();
    i64, |view, other| view == Value::from(*other).view();
    u32, |view, other| view == Value::from(*other).view();
    u64, |view, other| view == Value::from(*other).view();
    f64, |view, other| view == Value::from(*other).view();
    str, |view, other| view.as_str() == Some(other);
    &str, |view, other| view.as_str() == Some(*other);
    String, |view, other| view.as_str() == Some(other.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_converts_to_null() {
        assert_eq!(Value::from(None::<bool>), Value::Null);
        assert_eq!(Value::from(Some(1_u8)), Value::I64(1));
    }

    #[test]
    fn integers_convert_back_if_they_fit() {
        assert_eq!(u8::try_from(Value::from(255)), Ok(255));
        let error = u8::try_from(Value::from(256)).expect_err("too large");
        assert_eq!(error.to_string(), "Expected type u8, got i64");
        assert_eq!(i64::try_from(Value::U64(7)), Ok(7));
        assert!(i64::try_from(Value::U64(u64::MAX)).is_err());
        assert_eq!(f64::try_from(Value::from(2)), Ok(2.0));
    }

    #[test]
    fn bytes_are_neither_array_nor_text() {
        let value = Value::from(vec![104_u8, 105]);
        assert_eq!(value.as_bytes(), Some(&b"hi"[..]));
        assert!(String::try_from(&value).is_err());
        assert_eq!(Vec::try_from(value), Ok(b"hi".to_vec()));
    }

    #[test]
    fn collections_become_arrays_and_objects() {
        assert_eq!((0..3).collect::<Value>().to_string(), "[0,1,2]");
        let map = BTreeMap::from([("b", 2), ("a", 1)]);
        assert_eq!(Value::from(map).to_string(), r#"{"a":1,"b":2}"#);
    }

    #[test]
    fn values_compare_with_types_of_std() {
        assert_eq!(Value::U64(1), 1);
        assert_eq!(Value::F64(1.0), 1_u64);
        assert_eq!(Value::from("a"), "a");
        assert_ne!(Value::from("1"), 1);
    }
}
