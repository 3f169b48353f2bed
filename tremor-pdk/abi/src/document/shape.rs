//! The shape of a value, for pattern matching.

use value_trait::ValueType;

use super::{ArrayRef, NodeKind, ObjectRef, ValueRef, number::nearest_float, view::Repr};
use crate::value::{Array, Bytes, Number, Object, Str, Value};

/// The kind and the contents of a [`ValueRef`], for a `match` over all kinds.
#[derive(Clone, Copy)]
pub enum Shape<'a> {
    /// `null`, or a node that is invalid or of an unknown kind.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer. Usually above `i64::MAX`, because a [`Writer`](super::Writer) writes smaller integers as
    /// signed ones.
    U64(u64),
    /// A float.
    F64(f64),
    /// The text of a number that is kept as text. [`ValueRef`] describes the conversion to types and formats that lack
    /// such numbers.
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
    /// Returns the name of the kind for error messages, such as "a number".
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

/// Type that [`ValueRef::value_type`] reports for binary data, for which the crate value-trait has no type.
pub(crate) const BYTES: ValueType = ValueType::Custom("bytes");

/// Type that [`ValueRef::value_type`] reports for numbers that exceed the range of floats.
const NUMBER: ValueType = ValueType::Custom("number");

impl<'a> ValueRef<'a> {
    /// Returns the shape of the value.
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

    /// Returns the value-trait type of the value. The type of binary data is `Custom("bytes")`. The type of a number
    /// that is kept as text is `F64`, or `Custom("number")` if the number exceeds the range of floats.
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

    /// Returns the value as a tree with at most `depth` levels of arrays and objects; deeper arrays and objects become
    /// `null`. `text` and `data` convert text and binary data.
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
