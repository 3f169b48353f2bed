//! Values: the tree that is built and edited.

mod access;
mod array;
mod binary;
mod buffer;
mod convert;
mod object;
mod text;

pub use self::{
    array::Array,
    binary::Bytes,
    object::{IntoIter, Iter, IterMut, Object},
    text::Str,
};

use abi_stable::StableAbi;

/// A value.
#[repr(C, u8)]
#[derive(Clone, Debug, Default, StableAbi)]
pub enum Value<'v> {
    /// `null`.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A float; any, not-a-number included.
    F64(f64),
    /// Text.
    String(Str<'v>),
    /// Binary data.
    Bytes(Bytes<'v>),
    /// An array.
    Array(Array<'v>),
    /// An object.
    Object(Object<'v>),
}

impl Value<'_> {
    /// The same value, with everything borrowed copied.
    pub fn into_static(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::I64(value) => Value::I64(value),
            Value::U64(value) => Value::U64(value),
            Value::F64(value) => Value::F64(value),
            Value::String(value) => Value::String(value.into_static()),
            Value::Bytes(value) => Value::Bytes(value.into_static()),
            Value::Array(value) => Value::Array(value.into_static()),
            Value::Object(value) => Value::Object(value.into_static()),
        }
    }
}
