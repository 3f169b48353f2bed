//! Support for decoders that append text to the buffer that contains the message. The buffer may move when it grows, so
//! these decoders read from a copy of the message.

use tremor_abi::document::Writer;

use super::{
    Error, ErrorKind,
    buffer::{self, Bytes, Nodes, Span},
    limit,
};

/// A buffer for copies of messages, which is reused for every message.
#[derive(Debug, Default)]
pub struct Copied(Vec<u8>);

impl Copied {
    /// Calls `decode` with a copy of the message at `span`. `decode` has to write exactly one value.
    ///
    /// # Errors
    /// Returns the error of `decode`. Both buffers are then unchanged.
    pub(super) fn decode(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
        decode: impl FnOnce(&[u8], &mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        let message = &bytes[buffer::range(span, bytes.len())?];
        self.0.clear();
        self.0.extend_from_slice(message);
        let mut writer = Writer::new(bytes, nodes);
        let decoded = decode(&self.0, &mut writer);
        if self.0.len() > limit::KEPT {
            self.0 = Vec::new();
        }
        decoded?;
        writer.finish().map_err(|error| Error::new(ErrorKind::TooLarge, error.to_string()))
    }
}

/// The UTF-8 signature, with which some programs mark the encoding of a text. The signature is not a part of the text.
const SIGNATURE: &[u8] = b"\xef\xbb\xbf";

/// Returns a text without its UTF-8 signature.
pub(super) fn without_signature(text: &[u8]) -> &[u8] {
    text.strip_prefix(SIGNATURE).unwrap_or(text)
}

/// Returns the length of the UTF-8 signature at the start of a text, in bytes: 3, or 0 if there is none.
pub(super) fn signature_of(text: &[u8]) -> u32 {
    if text.starts_with(SIGNATURE) { 3 } else { 0 }
}

/// Returns the message as text.
///
/// # Errors
/// Returns an error of kind "bad data" if the message is not UTF-8.
pub(super) fn text(message: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(message)
        .map_err(|error| Error::bad_data_at(error.valid_up_to(), "invalid UTF-8"))
}
