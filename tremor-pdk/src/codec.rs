//! The trait of codecs, which convert messages to values and values to messages.

use std::{
    fmt, io,
    ops::{Deref, DerefMut},
};

use tremor_abi::{ByteBuffer, document::Writer};

use crate::{Error, Result, ValueRef};

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
    fn encode(&mut self, value: ValueRef<'_>, message: &mut Message<'_>) -> Result<()>;
}

/// The encoding of one value, to which a codec appends.
///
/// A message contains only its own bytes: a codec cannot read, change or remove those of other messages of the batch.
/// The messages of a batch have at most 64 MiB together, or eight times the size of their events if that is more. A
/// message that exceeds this keeps none of its bytes, and its event leaves by `err`.
///
/// ```
/// # use tremor_pdk::{testing, Codec, Component, ComponentContext, Message, Result, Value, ValueRef, Writer};
/// # struct List;
/// # impl Codec for List {
/// #     fn decode(&mut self, _: &[u8], value: &mut Writer<'_>) -> Result<()> { value.null(); Ok(()) }
/// fn encode(&mut self, value: ValueRef<'_>, message: &mut Message<'_>) -> Result<()> {
///     for element in value.as_array().into_iter().flat_map(|it| it.iter()) {
///         message.extend_from_slice(element.to_string().as_bytes());
///         message.push(b',');
///     }
///     message.pop(); // the last comma, if there is any
///     Ok(())
/// }
/// # }
/// let list = Value::from(vec![Value::from(1), Value::from(2)]);
/// assert_eq!(testing::encode(&mut List, &list)?, b"1,2");
/// # Ok::<(), tremor_pdk::Error>(())
/// ```
pub struct Message<'b> {
    bytes: &'b mut ByteBuffer,
    /// Length of `bytes` before the message.
    start: usize,
    /// Maximum length of `bytes`.
    most: usize,
    is_too_large: bool,
}

impl<'b> Message<'b> {
    /// Begins a message at the end of `bytes`, which then have at most `most` bytes.
    pub(crate) fn new(bytes: &'b mut ByteBuffer, most: usize) -> Self {
        let start = bytes.len();
        Self { bytes, start, most, is_too_large: false }
    }

    /// Ends the message.
    ///
    /// # Errors
    /// Kind bad data, if the message was too large.
    pub(crate) fn finish(self) -> Result<()> {
        if !self.is_too_large {
            return Ok(());
        }
        Err(Error::bad_data(format_args!(
            "the messages of a batch would have more than {} bytes: encode smaller values, or write fewer bytes",
            self.most
        )))
    }

    /// Appends `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if self.has_space(bytes.len()) {
            self.bytes.extend_from_copy_slice(bytes);
        }
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        if self.has_space(1) {
            self.bytes.push(byte);
        }
    }

    /// Removes and returns the last byte of the message. Returns `None` if the message is empty.
    pub fn pop(&mut self) -> Option<u8> {
        if self.is_empty() { None } else { self.bytes.pop() }
    }

    /// Removes the bytes after the first `len` bytes of the message. Has no effect if the message has no more bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(self.start.saturating_add(len));
    }

    /// Returns whether `count` more bytes have space. If not, the message becomes empty and too large.
    #[inline]
    fn has_space(&mut self, count: usize) -> bool {
        if !self.is_too_large && count <= self.most.saturating_sub(self.bytes.len()) {
            return true;
        }
        self.is_too_large = true;
        self.truncate(0);
        false
    }
}

/// The bytes of the message so far.
impl Deref for Message<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Message<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

/// Appends text. Never fails.
impl fmt::Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends bytes. Never fails.
impl io::Write for Message<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Message").field(&&**self).finish()
    }
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tremor_abi::ByteBuffer;

    use super::Message;

    #[test]
    fn message_contains_and_removes_only_its_own_bytes() {
        let mut bytes = ByteBuffer::from(b"before".to_vec());
        let mut message = Message::new(&mut bytes, 100);
        assert_eq!(message.pop(), None);
        message.truncate(0);
        message.write_all(b"abc").unwrap();
        assert_eq!((message.pop(), &*message), (Some(b'c'), &b"ab"[..]));
        message.truncate(1);
        message[0] = b'A';
        message.finish().unwrap();
        assert_eq!(bytes.as_slice(), b"beforeA");
    }

    #[test]
    fn message_that_exceeds_the_limit_keeps_no_byte() {
        let mut bytes = ByteBuffer::from(b"before".to_vec());
        let mut message = Message::new(&mut bytes, 8);
        message.extend_from_slice(b"ab");
        message.push(b'c');
        message.push(b'd');
        assert!(message.is_empty());
        let error = message.finish().unwrap_err().to_string();
        assert!(error.contains("more than 8 bytes"), "{error}");
        assert_eq!(bytes.as_slice(), b"before");
    }
}
