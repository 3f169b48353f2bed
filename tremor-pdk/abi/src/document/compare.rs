//! Equality, order and hash of values. They do not depend on whether a value is a document or a tree, on the
//! representation of a number, or on the order of the keys of an object.
//!
//! The order is total. The order of types is null, truth values, numbers, text, binary data, arrays, objects. Integers,
//! floats and text numbers compare by their decimal values (see [`number`]), except that exponents beyond ±10¹⁸ are
//! clamped. `-0.0` equals 0; not-a-number equals itself and follows every other number. Arrays compare element by
//! element, objects pair by pair in the order of their keys.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use super::{
    ArrayRef, MAX_DEPTH, ObjectRef, Shape, ValueRef,
    number::{self, NumberForm},
};

impl PartialEq for ValueRef<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        equal(*self, *other, MAX_DEPTH)
    }
}

impl Eq for ValueRef<'_> {}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ValueRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(*self, *other, MAX_DEPTH)
    }
}

impl Hash for ValueRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(*self, state, MAX_DEPTH);
    }
}

fn equal(a: ValueRef<'_>, b: ValueRef<'_>, depth: usize) -> bool {
    match (a.shape(), b.shape()) {
        (Shape::I64(a), Shape::I64(b)) => a == b,
        (Shape::String(a), Shape::String(b)) => a == b,
        (Shape::Array(a), Shape::Array(b)) => {
            depth == 0 || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, depth - 1))
        }
        (Shape::Object(a), Shape::Object(b)) => {
            depth == 0 || a.len() == b.len() && equal_objects(a, b, depth - 1)
        }
        (a, b) => compare_shapes(&a, &b, depth) == Ordering::Equal,
    }
}

fn equal_objects(a: ObjectRef<'_>, b: ObjectRef<'_>, depth: usize) -> bool {
    if a.iter().zip(b).all(|((a, _), (b, _))| a == b) {
        return a.iter().zip(b).all(|((_, a), (_, b))| equal(a, b, depth));
    }
    sorted(a).into_iter().zip(sorted(b)).all(|(a, b)| a.0 == b.0 && equal(a.1, b.1, depth))
}

fn compare(a: ValueRef<'_>, b: ValueRef<'_>, depth: usize) -> Ordering {
    compare_shapes(&a.shape(), &b.shape(), depth)
}

fn compare_shapes(a: &Shape<'_>, b: &Shape<'_>, depth: usize) -> Ordering {
    match (a, b) {
        (Shape::Bool(a), Shape::Bool(b)) => a.cmp(b),
        (Shape::String(a), Shape::String(b)) => a.cmp(b),
        (Shape::Bytes(a), Shape::Bytes(b)) => a.cmp(b),
        (Shape::Array(_), Shape::Array(_)) | (Shape::Object(_), Shape::Object(_)) if depth == 0 => {
            Ordering::Equal
        }
        (Shape::Array(a), Shape::Array(b)) => compare_arrays(*a, *b, depth - 1),
        (Shape::Object(a), Shape::Object(b)) => compare_objects(*a, *b, depth - 1),
        _ => match (Number::of(a), Number::of(b)) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => rank(a).cmp(&rank(b)),
        },
    }
}

fn compare_arrays(a: ArrayRef<'_>, b: ArrayRef<'_>, depth: usize) -> Ordering {
    let mut pairs = a.iter().zip(b).map(|(a, b)| compare(a, b, depth));
    pairs.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_objects(a: ObjectRef<'_>, b: ObjectRef<'_>, depth: usize) -> Ordering {
    let (a, b) = (sorted(a), sorted(b));
    let pairs = a.iter().zip(&b);
    let mut pairs = pairs.map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1, depth)));
    pairs.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn sorted(object: ObjectRef<'_>) -> Vec<(&str, ValueRef<'_>)> {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn rank(shape: &Shape<'_>) -> u8 {
    match shape {
        Shape::Null => 0,
        Shape::Bool(_) => 1,
        Shape::I64(_) | Shape::U64(_) | Shape::F64(_) | Shape::Number(_) => 2,
        Shape::String(_) => 3,
        Shape::Bytes(_) => 4,
        Shape::Array(_) => 5,
        Shape::Object(_) => 6,
    }
}

fn hash<H: Hasher>(value: ValueRef<'_>, state: &mut H, depth: usize) {
    let shape = value.shape();
    state.write_u8(rank(&shape));
    match shape {
        Shape::Null => {}
        Shape::Bool(value) => value.hash(state),
        Shape::String(text) => text.hash(state),
        Shape::Bytes(data) => data.hash(state),
        Shape::Array(_) | Shape::Object(_) if depth == 0 => {}
        Shape::Array(array) => {
            array.len().hash(state);
            array.iter().for_each(|element| hash(element, state, depth - 1));
        }
        Shape::Object(object) => {
            object.len().hash(state);
            for (key, value) in sorted(object) {
                key.hash(state);
                hash(value, state, depth - 1);
            }
        }
        Shape::I64(_) | Shape::U64(_) | Shape::F64(_) | Shape::Number(_) => {
            Number::of(&shape).hash(state);
        }
    }
}

/// A number of any kind.
#[derive(Clone, Copy)]
enum Number<'a> {
    Integer(i128),
    Float(f64),
    Text(&'a str),
}

impl<'a> Number<'a> {
    fn of(shape: &Shape<'a>) -> Option<Self> {
        match shape {
            Shape::I64(value) => Some(Self::Integer((*value).into())),
            Shape::U64(value) => Some(Self::Integer((*value).into())),
            Shape::F64(value) => Some(Self::Float(*value)),
            Shape::Number(text) => Some(Self::Text(text)),
            _ => None,
        }
    }

    fn cmp(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(&b),
            (Self::Integer(a), Self::Float(b)) => number::compare_integer_with_float(a, b),
            (Self::Float(a), Self::Integer(b)) => {
                number::compare_integer_with_float(b, a).reverse()
            }
            (Self::Float(a), Self::Float(b)) => {
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (Self::Text(a), Self::Text(b)) => number::compare(a, b),
            (Self::Text(a), Self::Integer(b)) => number::compare_integer(a, b),
            (Self::Text(a), Self::Float(b)) => number::compare_float(a, b),
            (a, b @ Self::Text(_)) => b.cmp(a).reverse(),
        }
    }
}

impl Hash for Number<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let form = match *self {
            Self::Integer(value) => NumberForm::Integer(value),
            Self::Float(value) => NumberForm::of_float(value),
            Self::Text(text) => NumberForm::new(text),
        };
        match form {
            NumberForm::Integer(value) => value.hash(state),
            NumberForm::Float(value) => value.to_bits().hash(state),
            NumberForm::Decimal(text) => text.hash(state),
        }
    }
}
