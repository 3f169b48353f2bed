//! YAML as a tree in which every node has its location.
//!
//! The tree is built from the events of the crate `saphyr-parser`. A flow file needs a tree of its own for two reasons.
//! First, the `config:` maps are free-form, and errors that a plugin's schema finds in them long after parsing still
//! have to be shown with line and column. Second, a typed deserialiser stops at the first error, whereas the reader of
//! a tree can continue and find further errors.

mod node;
mod parse;
mod references;
mod scalar;
mod syntax;

pub(crate) use node::{Data, Entry, Node, report_repeated_keys_of};
pub(crate) use parse::{Parsed, parse};
pub(crate) use references::Problem;
