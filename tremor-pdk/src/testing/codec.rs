//! One message through a codec, as the runtime does it.

use tremor_abi::ByteBuffer;

use crate::{Codec, Document, Error, Result, Value, Writer};

/// The value that a codec makes of a message.
///
/// # Errors
/// That of the codec. Kind internal where it wrote no value, or several.
pub fn decode(codec: &mut impl Codec, message: &[u8]) -> Result<Value<'static>> {
    let (mut bytes, mut nodes) = Default::default();
    let mut writer = Writer::new(&mut bytes, &mut nodes);
    codec.decode(message, &mut writer)?;
    let root = writer.finish().map_err(Error::internal)?;
    Ok(Document::new(&bytes, &nodes).root(root).to_value())
}

/// The message that a codec makes of a value.
///
/// # Errors
/// That of the codec.
pub fn encode(codec: &mut impl Codec, value: &Value<'_>) -> Result<Vec<u8>> {
    let mut message = ByteBuffer::new();
    codec.encode(value.into(), &mut message)?;
    Ok(message.into_vec())
}
