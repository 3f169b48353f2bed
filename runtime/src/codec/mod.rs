//! Codecs: raw messages to documents and back.

mod batch;
mod buffer;
mod duplicates;
mod error;
pub mod json;

pub use batch::Codec;
pub use buffer::{Bytes, Nodes, Span};
pub use error::{Error, ErrorKind};
