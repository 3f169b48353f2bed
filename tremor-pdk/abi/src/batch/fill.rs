//! Filling a batch: what a source does.

use super::{
    Batch, Limit,
    event::{Event, EventFlags, PayloadKind, Span},
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{self, ValueRef},
    error::PluginError,
    value::Value,
};

impl Batch {
    /// Sets how much a pull should add. The limit counts from an empty batch.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// How much a pull should add.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Whether the limit is reached: time for a source to return.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.events.len() >= self.limit.events as usize
            || self.bytes().len() >= self.limit.bytes as usize
    }

    /// Adds a whole message of `stream`: one call, one copy.
    #[inline]
    pub fn push_message(&mut self, stream: u64, message: &[u8]) {
        self.push_raw(stream, message, EventFlags(0));
    }

    /// Adds a part of a byte stream, cut anywhere. Preprocessors put messages together from the
    /// fragments of a stream; where there is none, the whole stream is one message.
    #[inline]
    pub fn push_fragment(&mut self, stream: u64, bytes: &[u8]) {
        self.push_raw(stream, bytes, EventFlags::FRAGMENT);
    }

    fn push_raw(&mut self, stream: u64, bytes: &[u8], flags: EventFlags) {
        let buffer = self.bytes_mut();
        let start = buffer.len();
        buffer.extend_from_copy_slice(bytes);
        self.push_span(start, bytes.len(), stream, flags);
    }

    /// Says that `stream` ends: what is left of its last message is complete now. A source that
    /// finishes ends all its streams by that.
    pub fn end_stream(&mut self, stream: u64) {
        self.push_end(stream, EventFlags::STREAM_END);
    }

    /// Says that `stream` was cut off: what is left of its last message never becomes one. It goes to
    /// `err`; where the source is transactional, the pulls that brought it fail instead.
    pub fn abort_stream(&mut self, stream: u64) {
        let (end, aborted) = (EventFlags::STREAM_END, EventFlags::STREAM_ABORTED);
        self.push_end(stream, EventFlags(end.0 | aborted.0));
    }

    fn push_end(&mut self, stream: u64, flags: EventFlags) {
        self.events.push(Event::new(PayloadKind::NONE, flags, Span::default(), stream));
    }

    /// Lets `read` fill up to `space` bytes of the batch's own buffer, and adds what it says it
    /// read as a fragment of `stream`: no copy at all. Returns how many bytes that were.
    ///
    /// # Errors
    /// Those of `read`; nothing is added then.
    pub fn read_fragment<E>(
        &mut self,
        stream: u64,
        space: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let buffer = self.bytes_mut();
        let start = buffer.len();
        buffer.resize(start + space, 0);
        let result = read(&mut buffer[start..]);
        let count = result.as_ref().map_or(0, |&count| count.min(space));
        buffer.truncate(start + count);
        result?;
        if count > 0 {
            self.push_span(start, count, stream, EventFlags::FRAGMENT);
        }
        Ok(count)
    }

    /// Adds a structured event: anything that serde can serialise, written straight into the
    /// batch's document.
    ///
    /// # Errors
    /// Bad data, where the value's own `Serialize` fails or does not fit a document; nothing is
    /// added then.
    pub fn push_value(
        &mut self,
        stream: u64,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<(), PluginError> {
        let (bytes, nodes) = self.buffers_mut();
        let root = document::write(value, bytes, nodes).map_err(PluginError::bad_data)?;
        let span = Span { start: root, len: 0 };
        self.events.push(Event::new(PayloadKind::DOCUMENT, EventFlags(0), span, stream));
        Ok(())
    }

    /// Adds an event with a copy of `value` as its payload.
    pub fn push_copy(&mut self, stream: u64, value: ValueRef<'_>) {
        let index = self.keep(value.to_value()) - 1;
        let span = Span { start: index, len: 0 };
        self.events.push(Event::new(PayloadKind::VALUE, EventFlags(0), span, stream));
    }

    /// Says where all events from position `from` on came from, in the connector's own words.
    pub fn set_origin(&mut self, from: usize, origin: &str) {
        let index = self.keep(Value::from(origin.to_owned()));
        for event in self.events.iter_mut().skip(from) {
            event.origin = index;
        }
    }

    /// Position in the table of values, plus one.
    pub(super) fn keep(&mut self, value: Value<'static>) -> u32 {
        self.values.push(value);
        narrow(self.values.len())
    }

    pub(super) fn push_span(&mut self, start: usize, len: usize, stream: u64, flags: EventFlags) {
        let span = Span { start: narrow(start), len: narrow(len) };
        self.events.push(Event::new(PayloadKind::RAW, flags, span, stream));
    }

    pub(super) fn bytes_mut(&mut self) -> &mut ByteBuffer {
        self.buffers_mut().0
    }

    /// The buffers, to write to: this batch's own from here on.
    pub(super) fn buffers_mut(&mut self) -> (&mut ByteBuffer, &mut NodeBuffer) {
        if !self.shared.is_unique() {
            let mut own = super::storage::Shared::unpooled();
            if let Some(storage) = own.storage_mut() {
                storage.bytes = self.shared.storage().bytes.clone();
                storage.nodes = self.shared.storage().nodes.clone();
            }
            self.shared = own;
        }
        match self.shared.storage_mut() {
            Some(storage) => (&mut storage.bytes, &mut storage.nodes),
            None => unreachable!("there is one reference to what was just made"),
        }
    }
}

/// Batches are bounded far below 4 GiB. A plugin whose batch exceeds that has a bug, and its panic
/// becomes an error; what the host does with bytes asks [`span`](super::bounds::span) instead.
pub(super) fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).expect("a batch holds less than 4 GiB")
}
