//! Plugins that a reader of the tutorials in the documentation writes, starting from generated plugins.

pub mod operator;
pub mod sink;
pub mod source;
