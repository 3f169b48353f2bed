//! What the tutorials of the book make of generated plugins.

pub mod operator;
pub mod sink;
pub mod source;
