//! Codecs: raw messages to documents and back.

mod buffer;
mod duplicates;
mod error;
pub mod json;
mod output;

pub use buffer::{Bytes, Nodes, Span};
pub use error::{Error, ErrorKind};
