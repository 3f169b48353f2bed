//! YAML as a tree in which every node knows its place.
//!
//! The parser proper is `saphyr-parser`, used for its events. The tree is ours because a flow
//! file's `config:` maps are free-form: what a plugin's schema finds wrong with them, long after
//! parsing, must still be shown at its line and column; and because a typed deserialiser stops at
//! the first error where a reader of a tree goes on and finds the rest.

mod node;
mod parse;
mod references;
mod scalar;
mod syntax;

pub(crate) use node::{Data, Entry, Node, report_repeated_keys_of};
pub(crate) use parse::{Parsed, parse};
pub(crate) use references::Problem;
