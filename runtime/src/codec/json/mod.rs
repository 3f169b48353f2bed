//! JSON.

// What looks at text is compiled for the processor's features that its caller is compiled for.
#![allow(clippy::inline_always)]

mod count;
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

use super::copied::without_signature;

/// Returns whether a message is blank: a blank line between the lines of a file, for example.
pub(super) fn is_blank(message: &[u8]) -> bool {
    without_signature(message).trim_ascii().is_empty()
}
