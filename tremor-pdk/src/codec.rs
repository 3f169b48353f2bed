//! What authors implement to turn bytes into values and back: codecs.

use tremor_abi::{ByteBuffer, document::Writer};

use crate::{Result, ValueRef};

/// Turns messages into values and values into messages. A connector has an instance for its source
/// and one for its sink.
///
/// Both methods are called in a loop within the plugin, once an event; what crosses the boundary
/// is the batch.
pub trait Codec: Send + 'static {
    /// Decodes one message: writes exactly one value.
    ///
    /// # Errors
    /// Kind bad data: the message leaves by `err`. Nothing that was written counts.
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()>;

    /// Encodes one value: appends to `message`.
    ///
    /// # Errors
    /// Kind bad data: the event leaves by `err`. Nothing that was appended counts.
    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()>;
}
