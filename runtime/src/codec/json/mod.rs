//! JSON.

mod decode;
mod encode;
mod escape;
mod explain;
mod numbers;
mod plain;
mod scan;
mod tape;
mod write;

pub use decode::{DecodeOptions, Decoder};
pub use encode::{EncodeOptions, Encoder};
