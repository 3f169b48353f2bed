//! What a value is, to be matched on.

use value_trait::ValueType;

use super::{ArrayRef, NodeKind, ObjectRef, ValueRef, number::nearest_float, view::Repr};
use crate::value::{Array, Bytes, Number, Object, Str, Value};

/// A [`ValueRef`] unpacked, so that one `match` tells all kinds apart.
#[derive(Clone, Copy)]
pub enum Shape<'a> {
    /// `null`, and what cannot be read.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer; usually above `i64::MAX`.
    U64(u64),
    /// A float.
    F64(f64),
    /// The text of a number that is kept as text. See [`ValueRef`] for what it becomes where there
    /// are no such numbers.
    Number(&'a str),
    /// Text.
    String(&'a str),
    /// Binary data.
    Bytes(&'a [u8]),
    /// An array.
    Array(ArrayRef<'a>),
    /// An object.
    Object(ObjectRef<'a>),
}

impl Shape<'_> {
    /// What kind of value this is, in the words of messages: "a number".
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::I64(_) | Self::U64(_) | Self::F64(_) | Self::Number(_) => "a number",
            Self::String(_) => "text",
            Self::Bytes(_) => "binary data",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// How [`ValueRef::value_type`] names binary data, for which value-trait has no type of its own.
pub(crate) const BYTES: ValueType = ValueType::Custom("bytes");

/// The name that [`ValueRef::value_type`] gives to numbers that exceed the range of floats.
const NUMBER: ValueType = ValueType::Custom("number");

impl<'a> ValueRef<'a> {
    /// What this is.
    #[inline]
    #[allow(clippy::cast_possible_wrap)] // the payload of an I64 is its two's complement
    pub fn shape(self) -> Shape<'a> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                match head.kind() {
                    NodeKind::BOOL => Shape::Bool(head.payload() != 0),
                    NodeKind::I64 => Shape::I64(head.payload() as i64),
                    NodeKind::U64 => Shape::U64(head.payload()),
                    NodeKind::F64 => Shape::F64(f64::from_bits(head.payload())),
                    NodeKind::STRING => subtree.text(head).map_or(Shape::Null, Shape::String),
                    NodeKind::BYTES => subtree.data(head).map_or(Shape::Null, Shape::Bytes),
                    NodeKind::NUMBER => subtree.number(head).map_or(Shape::Null, Shape::Number),
                    NodeKind::ARRAY => Shape::Array(ArrayRef::flat(subtree)),
                    NodeKind::OBJECT => Shape::Object(ObjectRef::flat(subtree)),
                    _ => Shape::Null,
                }
            }
            Repr::Tree(value) => match value {
                Value::Null => Shape::Null,
                Value::Bool(value) => Shape::Bool(*value),
                Value::I64(value) => Shape::I64(*value),
                Value::U64(value) => Shape::U64(*value),
                Value::F64(value) => Shape::F64(*value),
                Value::Number(number) => Shape::Number(number.as_str()),
                Value::String(text) => Shape::String(text),
                Value::Bytes(data) => Shape::Bytes(data),
                Value::Array(array) => Shape::Array(ArrayRef::tree(array)),
                Value::Object(object) => Shape::Object(ObjectRef::tree(object)),
            },
        }
    }

    /// Returns the type as value-trait names it. Binary data is `Custom("bytes")`. A number that is kept
    /// as text is `F64`, or `Custom("number")` if it exceeds the range of floats.
    pub fn value_type(self) -> ValueType {
        match self.shape() {
            Shape::Null => ValueType::Null,
            Shape::Bool(_) => ValueType::Bool,
            Shape::I64(_) => ValueType::I64,
            Shape::U64(_) => ValueType::U64,
            Shape::F64(_) => ValueType::F64,
            Shape::Number(text) if nearest_float(text).is_some() => ValueType::F64,
            Shape::Number(_) => NUMBER,
            Shape::String(_) => ValueType::String,
            Shape::Bytes(_) => BYTES,
            Shape::Array(_) => ValueType::Array,
            Shape::Object(_) => ValueType::Object,
        }
    }

    /// A tree of the same value, `depth` levels deep, with text and data made by the given functions.
    pub(super) fn to_tree<'v>(
        self,
        text: fn(&'a str) -> Str<'v>,
        data: fn(&'a [u8]) -> Bytes<'v>,
        depth: usize,
    ) -> Value<'v> {
        match self.shape() {
            Shape::Null => Value::Null,
            Shape::Bool(value) => Value::Bool(value),
            Shape::I64(value) => Value::I64(value),
            Shape::U64(value) => Value::U64(value),
            Shape::F64(value) => Value::F64(value),
            Shape::Number(value) => Value::Number(Number::of_checked(text(value))),
            Shape::String(value) => Value::String(text(value)),
            Shape::Bytes(value) => Value::Bytes(data(value)),
            Shape::Array(_) | Shape::Object(_) if depth == 0 => Value::Null,
            Shape::Array(array) => {
                let mut tree = Array::with_capacity(array.len());
                for element in array {
                    tree.push(element.to_tree(text, data, depth - 1));
                }
                Value::Array(tree)
            }
            Shape::Object(object) => {
                let mut tree = Object::with_capacity(object.len());
                for (key, value) in object {
                    tree.insert_nocheck(text(key), value.to_tree(text, data, depth - 1));
                }
                Value::Object(tree)
            }
        }
    }
}
