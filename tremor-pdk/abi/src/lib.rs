//! The ABI.

pub mod document;
pub mod value;
