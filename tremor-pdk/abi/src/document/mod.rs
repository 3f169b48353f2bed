//! Documents: the flat, position-independent form of values, and the one way to read values.
//!
//! A document is two buffers: all text and binary data in one, and a tree of 16-byte [`Node`]s in
//! depth-first order in the other, which refer to the first by offset. There is no pointer in it, so
//! it can be copied, pooled, queued and written to disk as it is, and dropping it costs nothing.
//! Many values can share one pair of buffers; each is known by the index of its root node.
//!
//! - [`Writer`] makes documents, from calls, from a [`ValueRef`] or from anything that serialises.
//! - [`Document`] and [`ValueRef`] read them; a `ValueRef` views a [`Value`](crate::value::Value)
//!   in the same way.
//! - [`validate`] checks a document of unknown origin.
//!
//! Reading is checked always: with any buffers, a view ends in `None`, `null` or an empty
//! container, never in a panic, a loop without end or a read out of bounds.

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
    convert::{ReadError, read, write},
    duplicates::{KeyFilter, resolve_duplicates},
    error::WriteError,
    key::Key,
    node::{Node, NodeKind, fingerprint},
    number::{NumberForm, is_json_number},
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

/// How deep arrays and objects may lie in each other: what the recursive readers follow before
/// they take a container for `null`, and what [`validate`] and [`Writer`] allow. It keeps every
/// recursion within a small part of a thread's stack.
pub const MAX_DEPTH: usize = 512;

#[cfg(test)]
pub(crate) mod tests;
