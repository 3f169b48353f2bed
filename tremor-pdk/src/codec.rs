//! The trait of codecs, which convert messages to values and values to messages.

use tremor_abi::{ByteBuffer, document::Writer};

use crate::{Result, ValueRef};

/// Converts messages to values and values to messages.
///
/// A connector has one instance for its source and another for its sink. The runtime calls the plugin once for each
/// batch, and the kit then calls `decode` or `encode` once for each event.
pub trait Codec: Send + 'static {
    /// Decodes one message and writes exactly one value to `value`.
    ///
    /// # Errors
    /// After an error of the kind bad data, the message leaves by `err`, and everything that the call wrote is
    /// discarded.
    fn decode(&mut self, message: &[u8], value: &mut Writer<'_>) -> Result<()>;

    /// Returns `true` if a message contains no event, such as a blank line or a comment.
    ///
    /// The runtime counts such a message as discarded, which acknowledges the message to its source. The method is
    /// called only for messages on which [`decode`](Codec::decode) failed, so `decode` must fail on messages without an
    /// event.
    fn holds_no_event(&self, message: &[u8]) -> bool {
        let _ = message;
        false
    }

    /// Encodes one value: appends its encoding to `message`.
    ///
    /// # Errors
    /// After an error of the kind bad data, the event leaves by `err`, and everything that the call appended is
    /// discarded.
    fn encode(&mut self, value: ValueRef<'_>, message: &mut ByteBuffer) -> Result<()>;
}

/// The codec that a connector needs, which follows from its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecRequirement {
    /// The batches contain bytes, and the flow must name a codec.
    Required,
    /// The batches contain bytes. The named codec is used if the flow names no codec.
    Optional(&'static str),
    /// The batches contain values. A codec in the flow is an error.
    Structured,
}

impl CodecRequirement {
    /// Compares two requirements at compile time.
    pub(crate) const fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Required, Self::Required) | (Self::Structured, Self::Structured) => true,
            (Self::Optional(one), Self::Optional(other)) => is_same_text(one, other),
            _ => false,
        }
    }
}

/// Compares two strings at compile time.
pub(crate) const fn is_same_text(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}
