//! The type [`ValueRef`], with which documents and values are read.

use std::str::FromStr;

use super::{
    ArrayRef, Key, Node, NodeKind, ObjectRef,
    key::Step,
    number::{NumberForm, nearest_float, to_i128},
    subtree::Subtree,
};
use crate::value::{Str, Value};

/// A view of a value in a document or in a [`Value`].
///
/// A view is `Copy` and cheap to pass. Data that its methods return borrows from the buffers or the value (`'a`), and
/// not from the view.
///
/// Access is exact: [`ValueRef::as_i64`] returns `None` for a float or for text. Signed and unsigned integers are not
/// distinguished: an integer is returned as `i64` and as `u64` if it fits.
///
/// # Numbers that are kept as text
/// A number that no 64-bit integer or float represents exactly is kept as text ([`NodeKind::NUMBER`]). Such a number
/// compares by its decimal value, and JSON and `Display` write its text unchanged. A type or a format without decimal
/// numbers gets the nearest float, or the text as a string if the number exceeds the range of floats.
#[derive(Clone, Copy)]
pub struct ValueRef<'a>(pub(super) Repr<'a>);

#[derive(Clone, Copy)]
pub(super) enum Repr<'a> {
    Flat(Subtree<'a>),
    Tree(&'a Value<'a>),
}

impl<'a> ValueRef<'a> {
    /// The value `null`.
    pub const NULL: ValueRef<'static> = ValueRef(Repr::Tree(&Value::Null));

    #[inline]
    pub(super) const fn of_subtree(subtree: Subtree<'a>) -> Self {
        Self(Repr::Flat(subtree))
    }

    /// Returns the nodes of the value, if it is in a document.
    #[inline]
    pub(crate) fn nodes(self) -> Option<&'a [Node]> {
        match self.0 {
            Repr::Flat(subtree) => Some(subtree.nodes()),
            Repr::Tree(_) => None,
        }
    }

    /// Returns whether the value is `null`. A node that is invalid or of an unknown kind counts as `null`.
    #[inline]
    pub fn is_null(self) -> bool {
        matches!(self.shape(), super::Shape::Null)
    }

    /// Returns the truth value, or `None` for another type.
    #[inline]
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                (head.kind() == NodeKind::BOOL).then_some(head.payload() != 0)
            }
            Repr::Tree(Value::Bool(value)) => Some(*value),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the integer, or `None` if the value is not an integer or does not fit.
    #[inline]
    #[allow(clippy::cast_possible_wrap)] // the payload of an I64 is its two's complement
    pub fn as_i64(self) -> Option<i64> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                match head.kind() {
                    NodeKind::I64 => Some(head.payload() as i64),
                    NodeKind::U64 => i64::try_from(head.payload()).ok(),
                    NodeKind::NUMBER => parse(subtree.number(head)),
                    _ => None,
                }
            }
            Repr::Tree(Value::I64(value)) => Some(*value),
            Repr::Tree(Value::U64(value)) => i64::try_from(*value).ok(),
            Repr::Tree(Value::Number(number)) => parse(Some(number.as_str())),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the integer, or `None` if the value is not an integer, is negative or does not fit.
    #[inline]
    #[allow(clippy::cast_possible_wrap)] // the payload of an I64 is its two's complement
    pub fn as_u64(self) -> Option<u64> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                match head.kind() {
                    NodeKind::I64 => u64::try_from(head.payload() as i64).ok(),
                    NodeKind::U64 => Some(head.payload()),
                    NodeKind::NUMBER => parse(subtree.number(head)),
                    _ => None,
                }
            }
            Repr::Tree(Value::I64(value)) => u64::try_from(*value).ok(),
            Repr::Tree(Value::U64(value)) => Some(*value),
            Repr::Tree(Value::Number(number)) => parse(Some(number.as_str())),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the float, or the nearest float for a number that is kept as text and does not exceed the range of
    /// floats; otherwise `None`.
    #[inline]
    pub fn as_f64(self) -> Option<f64> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                match head.kind() {
                    NodeKind::F64 => Some(f64::from_bits(head.payload())),
                    NodeKind::NUMBER => nearest_float(subtree.number(head)?),
                    _ => None,
                }
            }
            Repr::Tree(Value::F64(value)) => Some(*value),
            Repr::Tree(Value::Number(number)) => nearest_float(number.as_str()),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the text of a number that is kept as text, and `None` for integers and floats. The
    /// text is a number as RFC 8259 defines it.
    #[inline]
    pub fn as_number_text(self) -> Option<&'a str> {
        match self.0 {
            Repr::Flat(subtree) => subtree.number(subtree.head()),
            Repr::Tree(Value::Number(number)) => Some(number.as_str()),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the number if it is whole and fits 128 bits, in whatever representation: the integer 5, the float `5.0`
    /// and the text `50e-1` are the same number. Returns `None` for other numbers, and for other types.
    pub fn whole(self) -> Option<i128> {
        let integer = self.as_i64().map(i128::from).or_else(|| self.as_u64().map(i128::from));
        integer.or_else(|| match self.shape() {
            super::Shape::F64(float) => match NumberForm::of_float(float) {
                NumberForm::Integer(integer) => Some(integer),
                _ => None,
            },
            super::Shape::Number(text) => to_i128(text),
            _ => None,
        })
    }

    /// Returns the number, rounded to a float if it is an integer, or `None` if the value is not a number or exceeds
    /// the range of floats.
    #[allow(clippy::cast_precision_loss)] // the conversion to the nearest float is intended
    pub fn cast_f64(self) -> Option<f64> {
        self.as_f64()
            .or_else(|| self.as_i64().map(|value| value as f64))
            .or_else(|| self.as_u64().map(|value| value as f64))
    }

    /// Returns the text, or `None` for another type.
    #[inline]
    pub fn as_str(self) -> Option<&'a str> {
        match self.0 {
            Repr::Flat(subtree) => subtree.text(subtree.head()),
            Repr::Tree(Value::String(text)) => Some(text.as_str()),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the bytes of the text without a check that they are UTF-8, for comparison and hashing. In an invalid
    /// document, the bytes may be other than UTF-8; [`ValueRef::as_str`] then returns `None`.
    #[inline]
    pub fn text_bytes(self) -> Option<&'a [u8]> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                if head.kind() == NodeKind::STRING { subtree.data(head) } else { None }
            }
            Repr::Tree(Value::String(text)) => Some(text.as_bytes()),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the binary data, or `None` for another type.
    #[inline]
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self.0 {
            Repr::Flat(subtree) => {
                let head = subtree.head();
                if head.kind() == NodeKind::BYTES { subtree.data(head) } else { None }
            }
            Repr::Tree(Value::Bytes(bytes)) => Some(bytes.as_slice()),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the array, or `None` for another type.
    #[inline]
    pub fn as_array(self) -> Option<ArrayRef<'a>> {
        match self.0 {
            Repr::Flat(subtree) => {
                (subtree.head().kind() == NodeKind::ARRAY).then(|| ArrayRef::flat(subtree))
            }
            Repr::Tree(Value::Array(array)) => Some(ArrayRef::tree(array)),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the object, or `None` for another type.
    #[inline]
    pub fn as_object(self) -> Option<ObjectRef<'a>> {
        match self.0 {
            Repr::Flat(subtree) => {
                (subtree.head().kind() == NodeKind::OBJECT).then(|| ObjectRef::flat(subtree))
            }
            Repr::Tree(Value::Object(object)) => Some(ObjectRef::tree(object)),
            Repr::Tree(_) => None,
        }
    }

    /// Returns the value of `key`, or `None` if this is not an object or lacks the key.
    #[inline]
    pub fn get(self, key: &str) -> Option<ValueRef<'a>> {
        self.get_key(Key::new(key))
    }

    /// Returns the value of a prepared key, as [`ValueRef::get`] does.
    #[inline]
    pub fn get_key(self, key: Key<'_>) -> Option<ValueRef<'a>> {
        match self.0 {
            Repr::Flat(subtree) => subtree.find(key).map(ValueRef::of_subtree),
            Repr::Tree(Value::Object(object)) => object.get(key.as_str()).map(ValueRef::from),
            Repr::Tree(_) => None,
        }
    }

    /// Follows the steps of a path, and returns the value to which they lead.
    #[inline]
    pub(crate) fn follow<'k>(self, mut steps: impl Iterator<Item = Step<'k>>) -> Option<Self> {
        match self.0 {
            Repr::Flat(subtree) => subtree.follow(steps).map(Self::of_subtree),
            Repr::Tree(tree) => steps
                .try_fold(tree, |value, step| match step {
                    Step::Key(key) => value.get(key.as_str()),
                    Step::Index(index) => value.get_idx(index),
                })
                .map(Self::from),
        }
    }

    /// Returns the element at `index`, or `None` if this is not an array or is too short. In a document, the call takes
    /// time linear in `index`.
    #[inline]
    pub fn get_idx(self, index: usize) -> Option<ValueRef<'a>> {
        self.as_array()?.get(index)
    }

    /// Returns the value as a tree that borrows its text and binary data. Arrays and objects nested deeper than
    /// [`MAX_DEPTH`](super::MAX_DEPTH) levels become `null`.
    pub fn to_borrowed(self) -> Value<'a> {
        self.to_tree(Str::from, crate::value::Bytes::from, super::MAX_DEPTH)
    }

    /// Returns the value as a tree that owns its text and binary data. Arrays and objects nested deeper than
    /// [`MAX_DEPTH`](super::MAX_DEPTH) levels become `null`.
    pub fn to_value(self) -> Value<'static> {
        self.to_tree(|text| text.to_owned().into(), |data| data.to_owned().into(), super::MAX_DEPTH)
    }
}

/// Parses a number that is kept as text. Not inlined into its callers, because few numbers are kept as text.
#[inline(never)]
fn parse<T: FromStr>(text: Option<&str>) -> Option<T> {
    text?.parse().ok()
}

impl<'a> From<&'a Value<'_>> for ValueRef<'a> {
    #[inline]
    fn from(value: &'a Value<'_>) -> Self {
        Self(Repr::Tree(value))
    }
}
