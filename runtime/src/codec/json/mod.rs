//! The JSON codec.

// Functions that scan text are inlined, so that they are compiled for the processor features of their caller.
#![allow(clippy::inline_always)]

mod count;
mod decode;
mod encode;
mod escape;
mod explain;
pub(super) mod numbers;
mod plain;
mod scan;
mod tape;
mod write;

pub use decode::{DecodeOptions, Decoder};
pub use encode::{EncodeOptions, Encoder};

use super::copied::without_signature;

/// Returns whether a message is blank, for example a blank line between the lines of a file.
pub(super) fn is_blank(message: &[u8]) -> bool {
    without_signature(message).trim_ascii().is_empty()
}
