//! Values: trees in which data is built and edited.
//!
//! Use a [`Value`] to build or edit data. To read only, use a [`ValueRef`], which views values and documents in the
//! same way. The host may keep, edit and drop values of plugins, and plugins those of the host, because the memory of a
//! value returns to the allocator that it came from.
//!
//! ```
//! use tremor_abi::{literal, value::Value};
//!
//! let mut event = literal!({ "level": "warn", "code": 17 });
//! if let Some(object) = event.as_object_mut() {
//!     object.insert("seen", true);
//! }
//! assert_eq!(event.get("code"), Some(&Value::from(17)));
//! assert_eq!(event.to_string(), r#"{"level":"warn","code":17,"seen":true}"#);
//! ```
//!
//! With the feature `simd-json`, values convert from and to values of simd-json by `try_from`.

mod access;
mod array;
mod binary;
mod buffer;
mod convert;
mod deep;
mod deserialize;
mod macros;
mod number;
mod object;
mod patch;
mod path;
#[cfg(feature = "simd-json")]
mod simd;
mod text;
mod traits;
mod walk;

pub use self::{
    array::Array,
    binary::Bytes,
    number::Number,
    object::{IntoIter, Iter, IterMut, Object},
    patch::Change,
    path::{Path, PathError, PathMismatch},
    text::Str,
};

use abi_stable::{StableAbi, std_types::RVec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::document::{self, Document, ReadError, ValueRef, WriteError};

/// A value of any kind, owned or borrowed for `'v`: 32 bytes.
///
/// Equality, order and hash do not depend on the representation: `I64(1)`, `U64(1)` and `F64(1.0)` are equal, borrowed
/// text equals owned text, and the order of an object's keys does not matter. The order of all values is total, with
/// not-a-number last among the numbers.
///
/// A value may have any depth. Cloning, merging, converting to an owned value and dropping process all levels, with a
/// constant amount of stack. Display and serialisation treat arrays and objects that are nested deeper than
/// [`MAX_DEPTH`](document::MAX_DEPTH) levels, the maximum of a document, as `null`. Comparison and hashing ignore the
/// contents of these arrays and objects.
#[repr(C, u8)]
#[derive(Default, StableAbi)]
pub enum Value<'v> {
    /// `null`.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer. Conversions produce this variant only if the integer exceeds `i64::MAX`.
    U64(u64),
    /// A float, including infinities and not-a-number, which JSON cannot express.
    F64(f64),
    /// A number that no 64-bit integer or float represents exactly, as JSON text.
    Number(Number<'v>),
    /// Text.
    String(Str<'v>),
    /// Binary data.
    Bytes(Bytes<'v>),
    /// An array.
    Array(Array<'v>),
    /// An object.
    Object(Object<'v>),
}

/// Converts a value of any type that serde can serialise.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value<'static>, WriteError> {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let root = document::write(value, &mut bytes, &mut nodes)?;
    Ok(Document::new(&bytes, &nodes).root(root).to_value())
}

/// Deserialises a value of type `T` from `value`.
pub fn from_value<T: DeserializeOwned>(value: &Value<'_>) -> Result<T, ReadError> {
    document::read(value.view())
}

/// Deserialises a value of type `T` from a view. The result may borrow text and binary data from the view.
pub fn from_ref<'de, T: Deserialize<'de>>(value: ValueRef<'de>) -> Result<T, ReadError> {
    document::read(value)
}
