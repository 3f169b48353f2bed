//! The ABI: every type whose layout crosses the boundary between the runtime and a plugin.
//!
//! The version of this package is the version of the ABI ([`version`]). `tremor-pdk` re-exports
//! all of it; plugins depend on that, and on nothing else of ours.
//!
//! - [`value`] and [`document`]: the one representation of data, as a tree and flat.
//! - [`batch`]: events with their buffers, the unit of everything that crosses.
//! - [`connector`], [`component`], [`host`], [`module`]: the calls between host and plugin.
//! - [`error`]: what goes wrong, in kinds.
//! - [`metadata`]: what a library says without being loaded.

#[cfg(target_endian = "big")]
compile_error!("the layouts of the ABI are little-endian: a big-endian target cannot use them");

#[cfg(test)]
#[macro_use]
mod layout;
#[cfg(test)]
mod frozen;
#[cfg(doctest)]
mod lifetimes;

pub mod batch;
pub mod component;
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
