//! Conversion of single messages with a codec.

use tremor_abi::ByteBuffer;

use crate::{Codec, Document, Error, Message, Result, Value, Writer};

/// Decodes a message, and returns the value.
///
/// # Errors
/// Returns the error of the codec, or an error of the kind internal if the codec did not write exactly one value.
pub fn decode(codec: &mut impl Codec, message: &[u8]) -> Result<Value<'static>> {
    let (mut bytes, mut nodes) = Default::default();
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    codec.decode(message, &mut writer)?;
    let root = writer.finish().map_err(Error::internal)?;
    Ok(Document::new(&bytes, &nodes).root(root).to_value())
}

/// Encodes a value, and returns the message.
///
/// # Errors
/// Returns the error of the codec.
pub fn encode(codec: &mut impl Codec, value: &Value<'_>) -> Result<Vec<u8>> {
    let mut bytes = ByteBuffer::new();
    let mut message = Message::new(&mut bytes, usize::MAX);
    codec.encode(value.into(), &mut message)?;
    message.finish()?;
    Ok(bytes.into_vec())
}
