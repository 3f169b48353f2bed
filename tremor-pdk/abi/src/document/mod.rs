//! Documents: the flat, position-independent form of a value.

mod node;

pub use node::{Node, NodeKind, fingerprint};
