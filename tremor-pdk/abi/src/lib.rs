//! The ABI.

pub mod document;
