//! Codecs: raw messages to documents, and values back to bytes.
//!
//! A codec works on the buffers of a batch. Decoding appends the nodes of a message and leaves its
//! text where it is; encoding appends to a buffer of the sink. Nothing is allocated for an event.
//!
//! ```
//! use tremor_runtime::{codec::{self, Bytes, Nodes, Span}, components};
//!
//! let codec = components::codec("json", &serde_json::Value::Null).expect("a codec of the runtime");
//! let (mut decoder, mut encoder) = (codec.decoder(), codec.encoder());
//!
//! let message = br#"{ "level": "warn" }"#;
//! let (mut bytes, mut nodes) = (Bytes::from_slice(message), Nodes::new());
//! let span = Span { start: 0, len: 19 };
//! let root = decoder.decode(&mut bytes, span, &mut nodes)?;
//!
//! let mut out = Bytes::new();
//! encoder.document(&bytes, &nodes, root, &mut out)?;
//! assert_eq!(out.as_slice(), br#"{"level":"warn"}"#);
//! # Ok::<(), codec::Error>(())
//! ```
//!
//! | name | decoding gives | encoding takes |
//! |---|---|---|
//! | `json` | any value | any value; binary data as base64; floats must be finite |
//! | `msgpack` | any value | any value |
//! | `string` | text | text; binary data that is UTF-8; anything else as JSON |
//! | `binary` | binary data | text and binary data |
//! | [`csv`] | an array of text, or an object | such arrays and objects |
//! | [`influx`] | an object | such objects |
//! | [`syslog`] | an object | such objects |
//! | `null` | `null`, whatever the message | anything, and writes nothing |

mod batch;
mod buffer;
mod copied;
pub mod csv;
mod duplicates;
mod error;
pub mod influx;
pub mod json;
mod limit;
pub mod msgpack;
mod options;
mod output;
mod raw;
pub mod syslog;
mod terminator;

use std::sync::Arc;

use tremor_abi::document::{Node, ValueRef};

pub use batch::Decoded;
pub(crate) use batch::{BatchDecoder, BatchEncoder, MakeCodec};
pub use buffer::{Bytes, Nodes, Span};
pub use copied::Copied;
pub use error::{Error, ErrorKind};
pub(crate) use options::Json;
pub(crate) use terminator::Terminator;

/// A codec and its options; what works is a [`Decoder`] or an [`Encoder`] made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// See [`json`].
    Json {
        /// How messages are read.
        decode: json::DecodeOptions,
        /// How values are written.
        encode: json::EncodeOptions,
    },
    /// See [`msgpack`].
    Msgpack {
        /// How messages are read.
        decode: msgpack::DecodeOptions,
    },
    /// The message is text.
    String,
    /// The message is binary data.
    Binary,
    /// See [`csv`].
    Csv {
        /// How records are read and written.
        options: Arc<csv::Options>,
    },
    /// See [`influx`].
    Influx,
    /// See [`syslog`].
    Syslog,
    /// The message is thrown away.
    Null,
}

impl Codec {
    /// A decoder, to be kept from batch to batch.
    pub fn decoder(&self) -> Decoder {
        match self {
            Self::Json { decode, .. } => Decoder::Json(json::Decoder::new(*decode)),
            Self::Msgpack { decode } => Decoder::Msgpack(msgpack::Decoder::new(*decode)),
            Self::String => Decoder::String,
            Self::Binary => Decoder::Binary,
            Self::Csv { options } => Decoder::Csv(options.clone(), Copied::default()),
            Self::Influx => Decoder::Influx(Copied::default()),
            Self::Syslog => Decoder::Syslog(Copied::default()),
            Self::Null => Decoder::Null,
        }
    }

    /// An encoder, to be kept from batch to batch.
    pub fn encoder(&self) -> Encoder {
        match self {
            Self::Json { encode, .. } => Encoder::Json(json::Encoder::new(*encode)),
            Self::Msgpack { .. } => Encoder::Msgpack(msgpack::Encoder),
            Self::String => Encoder::String(json::Encoder::default()),
            Self::Binary => Encoder::Binary,
            Self::Csv { options } => Encoder::Csv(options.clone()),
            Self::Influx => Encoder::Influx,
            Self::Syslog => Encoder::Syslog,
            Self::Null => Encoder::Null,
        }
    }
}

/// Turns messages into nodes.
#[non_exhaustive]
pub enum Decoder {
    /// See [`json::Decoder`].
    Json(json::Decoder),
    /// See [`msgpack::Decoder`].
    Msgpack(msgpack::Decoder),
    /// Text.
    String,
    /// Binary data.
    Binary,
    /// See [`csv`].
    Csv(Arc<csv::Options>, Copied),
    /// See [`influx`].
    Influx(Copied),
    /// See [`syslog`].
    Syslog(Copied),
    /// `null`.
    Null,
}

impl Decoder {
    /// Decodes the message at `span`: appends its nodes, gives the index of the first one. What
    /// lies at `span` stays as it is; `bytes` may grow.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] for a message that does not decode; `nodes` is then as it was.
    pub fn decode(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
    ) -> Result<u32, Error> {
        match self {
            Self::Json(json) => json.decode(bytes, span, nodes),
            Self::Msgpack(msgpack) => msgpack.decode(bytes, span, nodes),
            Self::String => raw::decode_string(bytes, span, nodes),
            Self::Binary => raw::decode_binary(bytes, span, nodes),
            Self::Csv(options, copied) => copied.decode(bytes, span, nodes, |message, writer| {
                csv::decode(options, message, writer)
            }),
            Self::Influx(copied) => copied.decode(bytes, span, nodes, influx::decode),
            Self::Syslog(copied) => syslog::decode(copied, bytes, span, nodes),
            Self::Null => raw::decode_null(nodes),
        }
    }

    /// Returns whether a message that does not decode holds no event, such as a blank line or a comment. Then nothing
    /// is wrong with it.
    pub(crate) fn holds_no_event(&self, message: &[u8]) -> bool {
        match self {
            Self::Json(_) => json::is_blank(message),
            Self::Csv(..) => csv::is_blank(message),
            Self::Influx(_) => influx::is_blank(message),
            Self::Syslog(_) => syslog::is_blank(message),
            Self::Msgpack(_) | Self::String | Self::Binary | Self::Null => false,
        }
    }
}

/// Turns values into bytes.
#[non_exhaustive]
pub enum Encoder {
    /// See [`json::Encoder`].
    Json(json::Encoder),
    /// See [`msgpack::Encoder`].
    Msgpack(msgpack::Encoder),
    /// Text; the encoder is for what is none.
    String(json::Encoder),
    /// Binary data.
    Binary,
    /// See [`csv`].
    Csv(Arc<csv::Options>),
    /// See [`influx`].
    Influx,
    /// See [`syslog`].
    Syslog,
    /// Nothing.
    Null,
}

impl Encoder {
    /// Appends the value of a document whose root node is `root`: one that a decoder or a writer
    /// made, or that was validated.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] for a value that the format cannot hold; `out` is then as it was.
    pub fn document(
        &mut self,
        bytes: &[u8],
        nodes: &[Node],
        root: u32,
        out: &mut Bytes,
    ) -> Result<(), Error> {
        match self {
            Self::Json(json) => json.document(bytes, nodes, root, out),
            Self::Msgpack(msgpack) => msgpack.document(bytes, nodes, root, out),
            Self::String(_) | Self::Binary | Self::Csv(_) | Self::Influx | Self::Syslog => {
                self.value(raw::view(bytes, nodes, root), out)
            }
            Self::Null => Ok(()),
        }
    }

    /// Appends a value, wherever it lies.
    ///
    /// # Errors
    /// As [`Encoder::document`].
    pub fn value(&mut self, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
        match self {
            Self::Json(json) => json.value(value, out),
            Self::Msgpack(msgpack) => msgpack.value(value, out),
            Self::String(json) => raw::encode_string(json, value, out),
            Self::Binary => raw::encode_binary(value, out),
            Self::Csv(options) => whole(out, |out| csv::encode(options, value, out)),
            Self::Syslog => whole(out, |out| syslog::encode(value, out)),
            Self::Influx => whole(out, |out| influx::encode(value, out)),
            Self::Null => Ok(()),
        }
    }
}

/// What `encode` appends, or nothing.
fn whole(
    out: &mut Bytes,
    encode: impl FnOnce(&mut Bytes) -> Result<(), Error>,
) -> Result<(), Error> {
    let before = out.len();
    let result = encode(out);
    if result.is_err() {
        out.truncate(before);
    }
    result
}

#[cfg(test)]
mod bombs;
#[cfg(test)]
mod tests;
