//! Decoders that write what they find in a message after it, into the buffer that it lies in: they
//! read from a copy.

use tremor_abi::document::Writer;

use super::{
    Error, ErrorKind,
    buffer::{self, Bytes, Nodes, Span},
    limit,
};

/// Copies messages for a decoder; kept from one to the next.
#[derive(Debug, Default)]
pub struct Copied(Vec<u8>);

impl Copied {
    /// Gives a copy of the message at `span` to `decode`, which writes one value.
    ///
    /// # Errors
    /// Those of `decode`; both buffers are then as they were.
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

/// The UTF-8 signature, which programs put before a text to tell its encoding. It is no part of the text.
const SIGNATURE: &[u8] = b"\xef\xbb\xbf";

/// Returns a text without its UTF-8 signature.
pub(super) fn without_signature(text: &[u8]) -> &[u8] {
    text.strip_prefix(SIGNATURE).unwrap_or(text)
}

/// Returns the number of bytes of the UTF-8 signature that a text begins with: 3 or 0.
pub(super) fn signature_of(text: &[u8]) -> u32 {
    if text.starts_with(SIGNATURE) { 3 } else { 0 }
}

/// The message as text.
///
/// # Errors
/// Bad data, where it is none.
pub(super) fn text(message: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(message)
        .map_err(|error| Error::bad_data_at(error.valid_up_to(), "invalid UTF-8"))
}
