//! The ABI.

pub mod batch;
pub mod connector;
pub mod document;
pub mod error;
pub mod host;
pub mod metadata;
pub mod module;
pub mod value;
pub mod version;

/// A growable byte buffer that may cross the boundary.
pub type ByteBuffer = abi_stable::std_types::RVec<u8>;
/// A growable list of nodes that may cross the boundary.
pub type NodeBuffer = abi_stable::std_types::RVec<document::Node>;
