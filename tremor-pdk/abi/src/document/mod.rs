//! Documents, which are values without pointers, and the types that read documents and values.
//!
//! A document consists of two buffers: one contains all text and binary data, and the other a tree of 16-byte [`Node`]s
//! in depth-first order, which refer to the first buffer by offset. A document contains no pointers, so it can be
//! copied, pooled, queued and written to disk unchanged, and dropping it costs nothing. Many values can share the two
//! buffers. Each value is identified by the index of its root node.
//!
//! - [`Writer`] writes documents, from calls, from a [`ValueRef`] or from any value that serialises.
//! - [`Document`] and [`ValueRef`] read documents; a `ValueRef` also views a [`Value`](crate::value::Value).
//! - [`validate`] checks a document of unknown origin.
//!
//! Every read is bounds-checked: with arbitrary buffers, a view returns `None`, `null` or an empty container, and never
//! panics, loops endlessly or reads out of bounds.

mod compare;
mod containers;
mod convert;
mod copy;
mod display;
mod duplicates;
mod error;
mod key;
mod node;
mod number;
mod shape;
mod subtree;
mod validate;
mod view;
mod writer;

#[cfg(test)]
pub(crate) use self::validate::visits;
pub(crate) use self::validate::{Budget, Validator};
pub use self::{
    containers::{ArrayIter, ArrayRef, ObjectIter, ObjectRef},
    convert::{ReadError, read, reader, write},
    duplicates::{KeyFilter, resolve_duplicates},
    error::WriteError,
    key::Key,
    node::{Node, NodeKind, fingerprint},
    number::{Exact, NumberForm, is_json_number, scaled},
    shape::Shape,
    subtree::Document,
    validate::{Invalid, Reason, validate},
    view::ValueRef,
    writer::Writer,
};

pub(crate) use self::{
    convert::NUMBER,
    key::{Step, equal},
    shape::BYTES,
};

/// Maximum nesting depth of arrays and objects. Recursive readers treat deeper arrays and objects as `null`;
/// [`validate`] and [`Writer`] reject them. The limit ensures that recursion needs only a small part of a thread's
/// stack.
pub const MAX_DEPTH: usize = 512;

/// Largest index of a root node. Batches store the index plus one in 31 bits of a word, and use the other bit.
const MAX_ROOT: u32 = (1 << 31) - 2;

/// Returns the index of a root node as 32 bits.
///
/// # Errors
/// Returns [`WriteError::TooLarge`] if the index is more than [`MAX_ROOT`].
#[inline]
pub(crate) fn root_index(index: usize) -> Result<u32, WriteError> {
    let root = u32::try_from(index).ok().filter(|root| *root <= MAX_ROOT);
    root.ok_or(WriteError::TooLarge)
}

#[cfg(test)]
pub(crate) mod tests;
