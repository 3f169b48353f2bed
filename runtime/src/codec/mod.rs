//! Codecs, which decode raw messages to documents, and encode values to bytes.
//!
//! A codec works on the buffers of a batch. Decoding appends the nodes of a message, which refer to the text in the
//! buffer. Encoding appends bytes to another buffer. No memory is allocated for single events.
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
//! | name | result of decoding | values that can be encoded |
//! |---|---|---|
//! | `json` | any value | any value; binary data as base64; floats must be finite |
//! | `msgpack` | any value | any value |
//! | `string` | text | text; binary data that is UTF-8; anything else as JSON |
//! | `binary` | binary data | text and binary data |
//! | [`csv`] | an array of text, or an object | such arrays and objects |
//! | [`influx`] | an object | such objects |
//! | [`syslog`] | an object | such objects |
//! | [`logfmt`] | an object | objects without binary data |
//! | [`gelf`] | an object | objects with the required keys |
//! | `null` | `null` for every message | any value; writes nothing |

mod batch;
mod buffer;
mod copied;
pub mod csv;
mod duplicates;
mod error;
mod flattened;
mod frame;
pub mod gelf;
pub mod influx;
pub mod json;
mod limit;
pub mod logfmt;
pub mod msgpack;
mod options;
mod output;
mod raw;
pub mod syslog;
mod terminator;

use std::sync::Arc;

use tremor_abi::{
    batch::Format,
    document::{Node, ValueRef},
};

pub use batch::Decoded;
pub(crate) use batch::{BatchDecoder, BatchEncoder, MakeCodec};
pub use buffer::{Bytes, Nodes, Span};
pub use copied::Copied;
pub use error::{Error, ErrorKind};
pub use frame::FrameReader;
pub(crate) use options::{Json, Msgpack};
pub(crate) use terminator::Terminator;

/// A codec and its options, from which a [`Decoder`] or an [`Encoder`] is created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// The format [`json`].
    Json {
        /// Options for decoding.
        decode: json::DecodeOptions,
        /// Options for encoding.
        encode: json::EncodeOptions,
    },
    /// The format [`msgpack`].
    Msgpack {
        /// Options for decoding.
        decode: msgpack::DecodeOptions,
        /// Options for encoding.
        encode: msgpack::EncodeOptions,
    },
    /// The message is text.
    String,
    /// The message is binary data.
    Binary,
    /// The format [`csv`].
    Csv {
        /// Format of the records.
        options: Arc<csv::Options>,
    },
    /// The format [`influx`].
    Influx,
    /// The format [`syslog`].
    Syslog {
        /// Options of the format.
        options: syslog::Options,
    },
    /// The format [`logfmt`].
    Logfmt {
        /// Options of the format.
        options: logfmt::Options,
    },
    /// The format [`gelf`].
    Gelf,
    /// Messages are discarded.
    Null,
}

impl Codec {
    /// Creates a decoder, which reuses its buffers for every batch.
    pub fn decoder(&self) -> Decoder {
        match self {
            Self::Json { decode, .. } => Decoder::Json(json::Decoder::new(*decode)),
            Self::Msgpack { decode, .. } => Decoder::Msgpack(msgpack::Decoder::new(*decode)),
            Self::String => Decoder::String,
            Self::Binary => Decoder::Binary,
            Self::Csv { options } => Decoder::Csv(options.clone(), Copied::default()),
            Self::Influx => Decoder::Influx(Copied::default()),
            Self::Syslog { options } => Decoder::Syslog(options.into(), Copied::default()),
            Self::Logfmt { options } => Decoder::Logfmt(*options, Vec::new()),
            Self::Gelf => Decoder::Gelf(json::Decoder::new(json::DecodeOptions::default())),
            Self::Null => Decoder::Null,
        }
    }

    /// Creates an encoder, which reuses its buffers for every batch.
    pub fn encoder(&self) -> Encoder {
        match self {
            Self::Json { encode, .. } => Encoder::Json(json::Encoder::new(*encode)),
            Self::Msgpack { encode, .. } => Encoder::Msgpack(msgpack::Encoder::new(*encode)),
            Self::String => Encoder::String(json::Encoder::default()),
            Self::Binary => Encoder::Binary,
            Self::Csv { options } => Encoder::Csv(options.clone()),
            Self::Influx => Encoder::Influx,
            Self::Syslog { options } => Encoder::Syslog(options.into()),
            Self::Logfmt { options } => Encoder::Logfmt(*options),
            Self::Gelf => Encoder::Gelf(json::Encoder::default()),
            Self::Null => Encoder::Null,
        }
    }
}

/// Decodes messages to nodes.
#[non_exhaustive]
pub enum Decoder {
    /// Decoder of [`json`].
    Json(json::Decoder),
    /// Decoder of [`msgpack`].
    Msgpack(msgpack::Decoder),
    /// Decodes to text.
    String,
    /// Decodes to binary data.
    Binary,
    /// Decoder of [`csv`].
    Csv(Arc<csv::Options>, Copied),
    /// Decoder of [`influx`].
    Influx(Copied),
    /// Decoder of [`syslog`].
    Syslog(syslog::Zone, Copied),
    /// Decoder of [`logfmt`], with a buffer for text without its escapes.
    Logfmt(logfmt::Options, Vec<u8>),
    /// Decoder of [`gelf`].
    Gelf(json::Decoder),
    /// Decodes to `null`.
    Null,
}

impl Decoder {
    /// Decodes the message at `span`, appends its nodes, and returns the index of the first node. The bytes at `span`
    /// stay unchanged, but `bytes` may grow.
    ///
    /// # Errors
    /// Returns an error of kind [`ErrorKind::BadData`] if the message cannot be decoded. `nodes` is then unchanged.
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
            Self::Syslog(zone, copied) => syslog::decode(zone, copied, bytes, span, nodes),
            Self::Logfmt(options, unescaped) => {
                logfmt::decode(*options, unescaped, bytes, span, nodes)
            }
            Self::Gelf(json) => gelf::decode(json, bytes, span, nodes),
            Self::Null => raw::decode_null(nodes),
        }
    }

    /// Returns the format of the message that was decoded last, if its value is exact, so that the message can leave as
    /// it came. A JSON message with line breaks has no exact format, because a receiver of lines would find its end at the
    /// first of them. Call this once after each decoded message.
    #[inline]
    pub(crate) fn exact_format(&mut self) -> Option<Format> {
        match self {
            Self::Json(json) => json.is_exact().then_some(Format::Json),
            Self::Msgpack(msgpack) => msgpack.is_exact().then_some(Format::Msgpack),
            _ => None,
        }
    }

    /// Returns whether a message that could not be decoded contains no event, such as a blank line or a comment. Such a
    /// message is not an error.
    pub(crate) fn holds_no_event(&self, message: &[u8]) -> bool {
        match self {
            Self::Json(_) => json::is_blank(message),
            Self::Csv(..) => csv::is_blank(message),
            Self::Influx(_) => influx::is_blank(message),
            Self::Syslog(..) => syslog::is_blank(message),
            Self::Logfmt(..) => logfmt::is_blank(message),
            Self::Gelf(_) => gelf::is_blank(message),
            Self::Msgpack(_) | Self::String | Self::Binary | Self::Null => false,
        }
    }
}

/// Encodes values to bytes.
#[non_exhaustive]
pub enum Encoder {
    /// Encoder of [`json`].
    Json(json::Encoder),
    /// Encoder of [`msgpack`].
    Msgpack(msgpack::Encoder),
    /// Writes text. The inner encoder writes values that are not text.
    String(json::Encoder),
    /// Writes binary data.
    Binary,
    /// Encoder of [`csv`].
    Csv(Arc<csv::Options>),
    /// Encoder of [`influx`].
    Influx,
    /// Encoder of [`syslog`].
    Syslog(syslog::Zone),
    /// Encoder of [`logfmt`].
    Logfmt(logfmt::Options),
    /// Encoder of [`gelf`].
    Gelf(json::Encoder),
    /// Writes nothing.
    Null,
}

impl Encoder {
    /// Appends the value of a document whose root node is `root`. The document must come from a decoder or a writer, or
    /// must have been validated.
    ///
    /// # Errors
    /// Returns an error of kind [`ErrorKind::BadData`] if the format cannot represent the value; `out` is then
    /// unchanged.
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
            Self::String(_)
            | Self::Binary
            | Self::Csv(_)
            | Self::Influx
            | Self::Syslog(_)
            | Self::Logfmt(_)
            | Self::Gelf(_) => self.value(raw::view(bytes, nodes, root), out),
            Self::Null => Ok(()),
        }
    }

    /// Returns the format of messages that this encoder copies if they were not edited.
    fn copied_format(&self) -> Option<Format> {
        match self {
            Self::Json(json) => json.copies().then_some(Format::Json),
            Self::Msgpack(msgpack) => msgpack.copies().then_some(Format::Msgpack),
            _ => None,
        }
    }

    /// Appends a value of a document or a tree.
    ///
    /// # Errors
    /// Returns the same errors as [`Encoder::document`].
    pub fn value(&mut self, value: ValueRef<'_>, out: &mut Bytes) -> Result<(), Error> {
        match self {
            Self::Json(json) => json.value(value, out),
            Self::Msgpack(msgpack) => msgpack.value(value, out),
            Self::String(json) => raw::encode_string(json, value, out),
            Self::Binary => raw::encode_binary(value, out),
            Self::Csv(options) => whole(out, |out| csv::encode(options, value, out)),
            Self::Syslog(zone) => whole(out, |out| syslog::encode(zone, value, out)),
            Self::Influx => whole(out, |out| influx::encode(value, out)),
            Self::Logfmt(options) => whole(out, |out| logfmt::encode(*options, value, out)),
            Self::Gelf(json) => whole(out, |out| gelf::encode(json, value, out)),
            Self::Null => Ok(()),
        }
    }
}

/// Calls `encode`. If it fails, removes the bytes that it appended.
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
