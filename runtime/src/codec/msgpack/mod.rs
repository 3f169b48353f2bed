//! MessagePack, after <https://github.com/msgpack/msgpack/blob/master/spec.md>.
//!
//! - Integers of every width are one set; the smallest form is written.
//! - A 32-bit float widens to 64 bits; 64 bits are written.
//! - An extension becomes the object `{"$ext": {"type": -128…127, "data": binary}}`.
//! - A timestamp (extension type -1) becomes
//!   `{"$timestamp": {"seconds": integer, "nanoseconds": 0…999999999}}`, seconds since the Unix
//!   epoch. One that is none of the three forms, or has too many nanoseconds, stays an extension.
//! - An object of exactly one of these shapes is written as the extension it stands for, any
//!   other one as a map.
//! - A key that is not a string is bad data; of duplicate keys the last value stays, in the place
//!   of the first.

#![allow(clippy::doc_markdown)] // MessagePack is a name, not code

mod count;
mod decode;
mod encode;
mod extension;
mod reader;
mod write;

pub use decode::{DecodeOptions, Decoder};
pub use encode::Encoder;

#[cfg(test)]
mod tests;
