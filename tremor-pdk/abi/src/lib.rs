//! The ABI.

pub mod document;
pub mod value;

#[cfg(test)]
mod layout;
