//! The plugin's copy of an event, as the first attempt at a plugin interface had it: a tree of
//! `abi_stable`'s own types, whose objects are opaque hash maps in a box.

use abi_stable::{
    StableAbi,
    std_types::{RBox, RHashMap, RString, RVec},
};
use tremor_abi::{
    document::{Shape, ValueRef, Writer},
    value::{Array, Object, Value},
};

/// A value that owns all it holds.
#[repr(C)]
#[derive(StableAbi)]
pub(crate) enum PdkValue {
    Null,
    Bool(bool),
    I64(i64),
    U64(u64),
    F64(f64),
    String(RString),
    Bytes(RVec<u8>),
    Array(RVec<PdkValue>),
    Object(RBox<RHashMap<RString, PdkValue>>),
}

impl From<ValueRef<'_>> for PdkValue {
    fn from(value: ValueRef<'_>) -> Self {
        match value.shape() {
            Shape::Null => Self::Null,
            Shape::Bool(value) => Self::Bool(value),
            Shape::I64(value) => Self::I64(value),
            Shape::U64(value) => Self::U64(value),
            Shape::F64(value) => Self::F64(value),
            Shape::Number(text) => {
                value.as_f64().map_or_else(|| Self::String(text.into()), Self::F64)
            }
            Shape::String(text) => Self::String(text.into()),
            Shape::Bytes(data) => Self::Bytes(data.into()),
            Shape::Array(array) => {
                let mut elements = RVec::with_capacity(array.len());
                elements.extend(array.into_iter().map(Self::from));
                Self::Array(elements)
            }
            Shape::Object(object) => {
                let mut entries = RHashMap::with_capacity(object.len());
                for (key, value) in object {
                    entries.insert(key.into(), value.into());
                }
                Self::Object(RBox::new(entries))
            }
        }
    }
}

/// The way back to a tree: text moves, it is not copied.
impl From<PdkValue> for Value<'static> {
    fn from(value: PdkValue) -> Self {
        match value {
            PdkValue::Null => Self::Null,
            PdkValue::Bool(value) => value.into(),
            PdkValue::I64(value) => value.into(),
            PdkValue::U64(value) => value.into(),
            PdkValue::F64(value) => value.into(),
            PdkValue::String(text) => text.into_string().into(),
            PdkValue::Bytes(data) => Self::Bytes(data.into_vec().into()),
            PdkValue::Array(elements) => {
                let mut array = Array::with_capacity(elements.len());
                for element in elements {
                    array.push(Self::from(element));
                }
                Self::Array(array)
            }
            PdkValue::Object(entries) => {
                let mut object = Object::with_capacity(entries.len());
                for entry in RBox::into_inner(entries) {
                    object.insert_nocheck(entry.0.into_string(), Self::from(entry.1));
                }
                Self::Object(object)
            }
        }
    }
}

impl PdkValue {
    /// The way back to a document.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => writer.null(),
            Self::Bool(value) => writer.bool(*value),
            Self::I64(value) => writer.i64(*value),
            Self::U64(value) => writer.u64(*value),
            Self::F64(value) => writer.f64(*value),
            Self::String(text) => writer.str(text),
            Self::Bytes(data) => writer.bytes(data),
            Self::Array(elements) => {
                writer.begin_array();
                for element in elements {
                    element.write(writer);
                }
                writer.end_array();
            }
            Self::Object(entries) => {
                writer.begin_object();
                for entry in entries.iter() {
                    writer.key(entry.0);
                    entry.1.write(writer);
                }
                writer.end_object();
            }
        }
    }
}
