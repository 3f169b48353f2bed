//! The MessagePack codec, according to <https://github.com/msgpack/msgpack/blob/master/spec.md>.
//!
//! - Integers are not distinguished by width; the shortest form is written.
//! - A 32-bit float becomes a 64-bit float; floats are written with 64 bits.
//! - An extension becomes the object `{"$ext": {"type": -128…127, "data": binary}}`.
//! - A timestamp (extension type -1) becomes `{"$timestamp": {"seconds": integer, "nanoseconds": 0…999999999}}`, with
//!   seconds since the Unix epoch. A timestamp that has none of the three forms of the format, or too many nanoseconds,
//!   stays an extension.
//! - An object that has exactly one of these shapes is written as the extension that it represents. Any other object is
//!   written as a map.
//! - A key that is not a string is bad data. If a map has duplicate keys, the last value replaces the first one, at the
//!   position of the first one.

#![allow(clippy::doc_markdown)] // MessagePack is a name, not code

mod count;
mod decode;
mod encode;
mod extension;
mod reader;
mod write;

pub use decode::{DecodeOptions, Decoder};
pub use encode::{EncodeOptions, Encoder};

#[cfg(test)]
mod tests;
