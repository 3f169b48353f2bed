//! Codecs over batches: what the engine works with. The codec is chosen once a batch.

use serde_json::Value as Config;
use tremor_pdk::{
    Batch, Error, ValueRef,
    abi::{
        ByteBuffer,
        batch::{Pool, Rejected},
        document::Node,
    },
};

use super::{Span, json};

/// The names that flow files know codecs by.
pub const CODECS: &[&str] = &["binary", "json", "string"];

/// A codec with its buffers. Clones share nothing.
pub struct Codec(Format);

enum Format {
    Binary,
    Json { decoder: Box<json::Decoder>, encoder: json::Encoder },
    String,
}

impl Clone for Codec {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Format::Binary => Format::Binary,
            Format::Json { .. } => json(),
            Format::String => Format::String,
        })
    }
}

fn json() -> Format {
    Format::Json {
        decoder: Box::new(json::Decoder::new(json::DecodeOptions { max_depth: 512, big_integers_as_floats: false })),
        encoder: json::Encoder::new(),
    }
}

impl Codec {
    /// A codec by the name that flow files know it by.
    ///
    /// # Errors
    /// What is wrong with the name or the configuration, in a sentence.
    pub fn new(name: &str, _config: &Config) -> Result<Self, String> {
        match name {
            "binary" => Ok(Self(Format::Binary)),
            "json" => Ok(Self(json())),
            "string" => Ok(Self(Format::String)),
            _ => Err(format!("there is no codec `{name}`; there are {CODECS:?}")),
        }
    }

    /// Decodes the raw events of a batch. What it fails on is taken out and returned.
    pub fn decode(&mut self, batch: &mut Batch) -> Vec<Rejected> {
        match &mut self.0 {
            Format::Binary => batch.decode_with(|_, nodes, span| {
                nodes.push(Node::bytes(u64::from(span.start), span.len));
                last(nodes.len())
            }),
            Format::String => batch.decode_with(|bytes, nodes, span| {
                std::str::from_utf8(&bytes[span.range()])
                    .map_err(|error| Error::bad_data(format_args!("not UTF-8: {error}")))?;
                nodes.push(Node::string(u64::from(span.start), span.len));
                last(nodes.len())
            }),
            Format::Json { decoder, .. } => batch.decode_with(|bytes, nodes, span| {
                let span = Span { start: span.start, len: span.len };
                decoder.decode(bytes, span, nodes).map_err(Error::bad_data)
            }),
        }
    }

    /// Encodes the events of a batch, each with `suffix` behind it, into a new one. What it fails
    /// on is taken out of both and returned.
    pub fn encode(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        suffix: &[u8],
    ) -> (Batch, Vec<Rejected>) {
        match &mut self.0 {
            Format::Binary => batch.encode_with(pool, |value, out| {
                write(value.as_bytes().or_else(|| text(value)), "binary", value, out)?;
                out.extend_from_slice(suffix);
                Ok(())
            }),
            Format::String => batch.encode_with(pool, |value, out| {
                write(text(value), "string", value, out)?;
                out.extend_from_slice(suffix);
                Ok(())
            }),
            Format::Json { encoder, .. } => batch.encode_with(pool, |value, out| {
                let _ = &encoder;
                use std::io::Write as _;
                write!(out, "{value}").map_err(Error::bad_data)?;
                out.extend_from_slice(suffix);
                Ok(())
            }),
        }
    }
}

fn text(value: ValueRef<'_>) -> Option<&[u8]> {
    value.as_str().map(str::as_bytes)
}

fn write(
    bytes: Option<&[u8]>,
    codec: &str,
    value: ValueRef<'_>,
    out: &mut ByteBuffer,
) -> Result<(), Error> {
    let bytes = bytes.ok_or_else(|| {
        Error::bad_data(format_args!(
            "the codec `{codec}` cannot write {:?}; use `json`, or select a field",
            value.value_type()
        ))
    })?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn last(nodes: usize) -> Result<u32, Error> {
    u32::try_from(nodes - 1).map_err(|_| Error::bad_data("the batch has too many values"))
}
