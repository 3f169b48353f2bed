//! Decoders that write what they find in a message behind it, into the buffer that it lies in: they
//! read from a copy.

use tremor_abi::document::Writer;

use super::{
    Error, ErrorKind,
    buffer::{self, Bytes, Nodes, Span},
};

/// Copies messages of text for a decoder; kept from one to the next.
#[derive(Debug, Default)]
pub struct Copied(String);

impl Copied {
    /// Gives a copy of the message at `span` to `decode`, which writes one value.
    ///
    /// # Errors
    /// Bad data where the message is no text, and those of `decode`; both buffers are then as they
    /// were.
    pub(super) fn decode(
        &mut self,
        bytes: &mut Bytes,
        span: Span,
        nodes: &mut Nodes,
        decode: impl FnOnce(&str, &mut Writer<'_>) -> Result<(), Error>,
    ) -> Result<u32, Error> {
        let message = &bytes[buffer::range(span, bytes.len())?];
        let text = std::str::from_utf8(message)
            .map_err(|error| Error::bad_data_at(error.valid_up_to(), "invalid UTF-8"))?;
        self.0.clear();
        self.0.push_str(text);
        let mut writer = Writer::new(bytes, nodes);
        decode(&self.0, &mut writer)?;
        writer.finish().map_err(|error| Error::new(ErrorKind::TooLarge, error.to_string()))
    }
}

/// What a value is, for an error.
pub(super) fn kind(value: tremor_abi::document::ValueRef<'_>) -> &'static str {
    use tremor_abi::document::Shape;
    match value.shape() {
        Shape::Null => "null",
        Shape::Bool(_) => "a truth value",
        Shape::I64(_) | Shape::U64(_) | Shape::F64(_) => "a number",
        Shape::String(_) => "text",
        Shape::Bytes(_) => "binary data",
        Shape::Array(_) => "an array",
        Shape::Object(_) => "an object",
    }
}
