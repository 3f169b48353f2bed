//! Serialisation of values and views.

use std::any::type_name;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::NUMBER;
use crate::document::{MAX_DEPTH, Shape, ValueRef, Writer, number::nearest_float};

/// The text of a number, which is written unchanged to a [`Writer`]. Any other serialiser receives the nearest float,
/// or the text as a string if the number exceeds the range of floats.
struct NumberText<'a>(&'a str);

impl Serialize for NumberText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Equal type names do not prove that the types are equal, but only the form of the number depends on the
        // result.
        let is_writer = type_name::<S>() == type_name::<&mut Writer<'_>>();
        match nearest_float(self.0).filter(|_| !is_writer) {
            Some(float) => serializer.serialize_f64(float),
            None => serializer.serialize_str(self.0),
        }
    }
}

/// A value that is serialised down to the given number of levels. Deeper arrays and objects become `null`.
struct Nested<'a>(ValueRef<'a>, usize);

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, depth) = *self;
        match value.shape() {
            Shape::Null => serializer.serialize_unit(),
            Shape::Bool(value) => serializer.serialize_bool(value),
            Shape::I64(value) => serializer.serialize_i64(value),
            Shape::U64(value) => serializer.serialize_u64(value),
            Shape::F64(value) => serializer.serialize_f64(value),
            Shape::Number(text) => serializer.serialize_newtype_struct(NUMBER, &NumberText(text)),
            Shape::String(text) => serializer.serialize_str(text),
            Shape::Bytes(data) => serializer.serialize_bytes(data),
            Shape::Array(_) | Shape::Object(_) if depth == 0 => serializer.serialize_unit(),
            Shape::Array(array) => {
                let mut seq = serializer.serialize_seq(Some(array.len()))?;
                for element in array {
                    seq.serialize_element(&Nested(element, depth - 1))?;
                }
                seq.end()
            }
            Shape::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, value) in object {
                    map.serialize_entry(key, &Nested(value, depth - 1))?;
                }
                map.end()
            }
        }
    }
}

impl Serialize for ValueRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Nested(*self, MAX_DEPTH).serialize(serializer)
    }
}
