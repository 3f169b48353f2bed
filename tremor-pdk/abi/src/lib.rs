//! The ABI: every type that the runtime and a plugin exchange, and whose layout is therefore fixed.
//!
//! The version of this package is the version of the ABI ([`version`]). `tremor-pdk` re-exports the types that plugins
//! need, so a plugin depends on no other package of this project.
//!
//! - [`value`] and [`document`]: the two representations of data, as a tree and as flat nodes.
//! - [`batch`]: events with their buffers, the unit in which events are passed.
//! - [`connector`], [`component`], [`host`], [`module`]: the calls between host and plugin.
//! - [`error`]: errors with their kinds and policies.
//! - `frame`, with the feature of this name: batches outside of memory, on disk and between processes.
//! - [`metadata`]: the record that describes a library and is read without loading it.

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
mod lock;
pub mod metadata;
pub mod module;
mod sync;
pub mod value;
pub mod version;

#[cfg(feature = "frame")]
pub use self::batch::frame;
pub use self::lock::lock;

/// A growable byte buffer that host and plugins can exchange.
pub type ByteBuffer = abi_stable::std_types::RVec<u8>;
/// A growable list of nodes that host and plugins can exchange.
pub type NodeBuffer = abi_stable::std_types::RVec<document::Node>;
