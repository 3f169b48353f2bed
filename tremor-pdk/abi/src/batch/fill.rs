//! Filling a batch: what a source does.

use std::mem::MaybeUninit;

use super::{
    Batch, Limit,
    event::{Event, EventFlags, PayloadKind, Span},
    spare::fill_spare,
};
use crate::{ByteBuffer, NodeBuffer, document, error::PluginError, value::Value};

impl Batch {
    /// The number of the pull that fills this batch: what the source hears of it again when all that it
    /// brought is done with. Numbers grow from 1 on in each connection. A pull that brings nothing is never
    /// heard of, and leaves its number to the next.
    #[inline]
    pub fn pull(&self) -> u64 {
        self.pull
    }

    /// Sets the number of the pull. The host has done so before it pulls.
    pub fn set_pull(&mut self, pull: u64) {
        self.pull = pull;
    }

    /// Sets how much a pull should add. The limit counts from an empty batch. The host has done so before
    /// it pulls.
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

    /// Exchanges the contents with another batch: one that was filled elsewhere, on another thread say.
    /// Each keeps its limit and its pull.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.limit, &mut other.limit);
        std::mem::swap(&mut self.pull, &mut other.pull);
    }

    /// The stream of this number, to add events of.
    #[inline]
    pub fn stream(&mut self, stream: u64) -> Stream<'_> {
        Stream { batch: self, stream }
    }

    /// Adds a value of stream 0: anything that serde can serialise, written straight into the batch's
    /// document.
    ///
    /// # Errors
    /// Bad data, where the value's own `Serialize` fails or does not fit a document; nothing is
    /// added then.
    pub fn push(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), PluginError> {
        self.stream(0).push(value)
    }

    /// Adds a whole message of stream 0: one call, one copy.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.stream(0).push_message(message);
    }

    /// Says where all events that have no origin yet came from, in the connector's own words: a path, a
    /// peer's address.
    pub fn set_origin(&mut self, origin: &str) {
        let index = self.keep(Value::from(origin.to_owned()));
        for event in self.events.iter_mut().filter(|event| event.origin == 0) {
            event.origin = index;
        }
    }

    /// Says where the events from this position on came from, as [`Batch::set_origin`] does: for a source
    /// with several peers.
    pub fn set_origin_from(&mut self, position: usize, origin: &str) {
        if position < self.len() {
            let index = self.keep(Value::from(origin.to_owned()));
            self.events[position..].iter_mut().for_each(|event| event.origin = index);
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

/// A stream within a source: a connection, a file, a partition. What is added by this handle is of that
/// stream.
pub struct Stream<'b> {
    batch: &'b mut Batch,
    stream: u64,
}

impl Stream<'_> {
    /// Adds a value: anything that serde can serialise, written straight into the batch's document.
    ///
    /// # Errors
    /// Bad data, where the value's own `Serialize` fails or does not fit a document; nothing is
    /// added then.
    pub fn push(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), PluginError> {
        let (bytes, nodes) = self.batch.buffers_mut();
        let root = document::write(value, bytes, nodes).map_err(PluginError::bad_data)?;
        let span = Span { start: root, len: 0 };
        self.add(PayloadKind::DOCUMENT, EventFlags(0), span);
        Ok(())
    }

    /// Adds a whole message: one call, one copy.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.push_raw(message, EventFlags(0));
    }

    /// Adds a part of a byte stream, cut anywhere. Preprocessors put messages together from the
    /// fragments of a stream; where there is none, the whole stream is one message.
    #[inline]
    pub fn push_fragment(&mut self, bytes: &[u8]) {
        self.push_raw(bytes, EventFlags::FRAGMENT);
    }

    /// Lets `read` fill up to `space` bytes of the batch's own buffer, and adds what it says it
    /// read as a fragment: no copy at all. Returns how many bytes that were.
    ///
    /// # Errors
    /// Those of `read`; nothing is added then.
    pub fn read_fragment<E>(
        &mut self,
        space: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let buffer = self.batch.bytes_mut();
        let start = buffer.len();
        buffer.resize(start + space, 0);
        let result = read(&mut buffer[start..]);
        let count = result.as_ref().map_or(0, |&count| count.min(space));
        buffer.truncate(start + count);
        result?;
        if count > 0 {
            self.batch.push_span(start, count, self.stream, EventFlags::FRAGMENT);
        }
        Ok(count)
    }

    /// As [`Stream::read_fragment`], for what writes to memory without reading it: no byte is written
    /// twice. `fill` gives back the part that it has filled, from the first byte on, as `rustix::net::recv` does.
    ///
    /// ```
    /// # use tremor_abi::batch::Batch;
    /// let mut batch = Batch::new();
    /// let filled = batch.stream(1).fill_fragment(16, |space| {
    ///     Ok::<_, std::io::Error>(space[..2].write_copy_of_slice(b"hi"))
    /// });
    /// assert_eq!(filled.unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// Those of `fill`; nothing is added then.
    ///
    /// # Panics
    /// Where `fill` gives back anything else, or the batch would have 4 GiB with so much space.
    pub fn fill_fragment<E>(
        &mut self,
        space: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<usize, E> {
        let start = self.batch.bytes().len();
        let count = fill_spare(self.batch.bytes_mut(), space, fill)?;
        if count > 0 {
            self.batch.push_span(start, count, self.stream, EventFlags::FRAGMENT);
        }
        Ok(count)
    }

    /// As [`Stream::fill_fragment`], for a whole message: a datagram, also one without a byte.
    ///
    /// # Errors
    /// Those of `fill`; nothing is added then.
    ///
    /// # Panics
    /// As [`Stream::fill_fragment`].
    pub fn fill_message<E>(
        &mut self,
        space: usize,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&mut [u8], E>,
    ) -> Result<usize, E> {
        let start = self.batch.bytes().len();
        let count = fill_spare(self.batch.bytes_mut(), space, fill)?;
        self.batch.push_span(start, count, self.stream, EventFlags(0));
        Ok(count)
    }

    /// Says that the stream ends: what is left of its last message is complete now. A source that
    /// finishes ends all its streams by that.
    pub fn end(&mut self) {
        self.add(PayloadKind::NONE, EventFlags::STREAM_END, Span::default());
    }

    /// Says that the stream was cut off: what is left of its last message never becomes one. It goes to
    /// `err`; where the source is transactional, the pulls that brought it fail instead.
    pub fn abort(&mut self) {
        let (end, aborted) = (EventFlags::STREAM_END, EventFlags::STREAM_ABORTED);
        self.add(PayloadKind::NONE, EventFlags(end.0 | aborted.0), Span::default());
    }

    fn push_raw(&mut self, bytes: &[u8], flags: EventFlags) {
        let buffer = self.batch.bytes_mut();
        let start = buffer.len();
        buffer.extend_from_copy_slice(bytes);
        self.batch.push_span(start, bytes.len(), self.stream, flags);
    }

    fn add(&mut self, kind: PayloadKind, flags: EventFlags, span: Span) {
        self.batch.events.push(Event::new(kind, flags, span, self.stream));
    }
}

/// Batches are bounded far below 4 GiB. A plugin whose batch exceeds that has a bug, and its panic
/// becomes an error; what the host does with bytes asks [`span`](super::bounds::span) instead.
pub(super) fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).expect("a batch holds less than 4 GiB")
}
