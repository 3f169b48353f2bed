//! JSON.

mod decode;
mod encode;
mod escape;
mod explain;
mod output;

pub use decode::{DecodeOptions, Decoder};
pub use encode::Encoder;
