//! JSON.

mod decode;
mod encode;
mod escape;
mod explain;
mod numbers;
mod output;
mod tape;

pub use decode::{DecodeOptions, Decoder};
pub use encode::{EncodeOptions, Encoder};
