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

    /// Returns whether a message holds no event, such as a blank line or a comment. Such a message is counted as
    /// discarded, and its input is acknowledged.
    ///
    /// Called for messages that [`decode`](Codec::decode) failed on, so let `decode` fail on these.
    fn holds_no_event(&self, message: &[u8]) -> bool {
        let _ = message;
        false
    }

    /// Encodes one value: appends to `message`.
    ///
    /// # Errors
    /// Kind bad data: the event leaves by `err`. Nothing that was appended counts.
    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()>;
}

/// The codec that a connector needs, which follows from its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecRequirement {
    /// Bytes; the flow must name a codec.
    Required,
    /// Bytes; where the flow names no codec, this one is used.
    Optional(&'static str),
    /// Values; a codec in the flow is an error.
    Structured,
}

impl CodecRequirement {
    /// Equality, at compile time.
    pub(crate) const fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Required, Self::Required) | (Self::Structured, Self::Structured) => true,
            (Self::Optional(one), Self::Optional(other)) => is_same_text(one, other),
            _ => false,
        }
    }
}

/// Equality, at compile time.
pub(crate) const fn is_same_text(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}
