//! Values: the tree that is built and edited.
//!
//! A [`Value`] is what code makes and changes; what it only reads, it reads through a
//! [`ValueRef`], which views values and documents alike. Both sides of
//! the boundary may keep, edit and drop a value of the other: what it owns is given back to the
//! allocator that it came from.
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
//! With the feature `simd-json`, values are made of those of simd-json and become such again, by `try_from`.

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
    path::{NoSuchPlace, Path, PathError},
    text::Str,
};

use abi_stable::{StableAbi, std_types::RVec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::document::{self, Document, ReadError, ValueRef, WriteError};

/// A value of any kind, owned or borrowing from something that lives for `'v`: 32 bytes.
///
/// Equality, order and hash are those of what is meant, not of how it is kept: `I64(1)`, `U64(1)`
/// and `F64(1.0)` are equal, borrowed text equals owned text, and the order of an object's keys does
/// not matter. The order of all values is total, with not-a-number last among the numbers.
///
/// A value may be of any depth: it is cloned, merged, made to own what it borrows and dropped to its
/// last level, and needs no more stack for that than a flat one. What compares, hashes, shows or
/// serialises it follows [`MAX_DEPTH`](document::MAX_DEPTH) levels, the most that a document may
/// have, and takes what lies deeper for `null`, or for equal.
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
    /// An unsigned integer; made by conversion only where it exceeds [`Value::I64`].
    U64(u64),
    /// A float; any, infinities and not-a-number included, although JSON cannot express those.
    F64(f64),
    /// A number that no 64-bit integer and no float is equal to, as the text of a JSON number.
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

/// The value of anything that serialises.
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value<'static>, WriteError> {
    let (mut bytes, mut nodes) = (RVec::new(), RVec::new());
    let root = document::write(value, &mut bytes, &mut nodes)?;
    Ok(Document::new(&bytes, &nodes).root(root).to_value())
}

/// Anything that deserialises, out of a value.
pub fn from_value<T: DeserializeOwned>(value: &Value<'_>) -> Result<T, ReadError> {
    document::read(value.view())
}

/// Anything that deserialises, out of a view; it may borrow from what the view shows.
pub fn from_ref<'de, T: Deserialize<'de>>(value: ValueRef<'de>) -> Result<T, ReadError> {
    document::read(value)
}
