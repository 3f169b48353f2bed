//! The ABI.
