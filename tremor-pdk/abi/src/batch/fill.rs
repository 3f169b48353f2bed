//! Methods for sources, which fill batches.

use std::mem::MaybeUninit;

use super::{
    Batch, Limit,
    event::{Event, EventFlags, PayloadKind, Span},
    spare::fill_spare,
};
use crate::{ByteBuffer, NodeBuffer, document, error::PluginError, value::Value};

impl Batch {
    /// Returns the number of the pull that fills this batch, by which acknowledgements identify the pull. Numbers start
    /// at 1 in each connection and grow. A pull that adds no event is never acknowledged, and the next pull has the
    /// same number.
    #[inline]
    pub fn pull(&self) -> u64 {
        self.pull
    }

    /// Sets the number of the pull. The host calls this method before it pulls.
    pub fn set_pull(&mut self, pull: u64) {
        self.pull = pull;
    }

    /// Sets the maximum number of events and bytes that a pull should add. The host calls this method before it pulls,
    /// on an empty batch.
    pub fn set_limit(&mut self, limit: impl Into<Limit>) {
        self.limit = limit.into();
    }

    /// Returns the maximum number of events and bytes that a pull should add.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns whether the limit is reached, so that a source should return.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.events.len() >= self.limit.events as usize
            || self.bytes().len() >= self.limit.bytes as usize
    }

    /// Exchanges the contents with `other`, for example a batch that was filled on another thread. Each batch keeps its
    /// limit and its pull number.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        std::mem::swap(&mut self.limit, &mut other.limit);
        std::mem::swap(&mut self.pull, &mut other.pull);
    }

    /// Returns a handle that adds events of the stream with the number `stream`.
    #[inline]
    pub fn stream(&mut self, stream: u64) -> Stream<'_> {
        Stream { batch: self, stream }
    }

    /// Adds a value of stream 0, of any type that serde can serialise. The value is written directly into the buffers
    /// of the batch.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the value's own `Serialize` fails or the value cannot be stored in a
    /// document; then nothing is added.
    pub fn push(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), PluginError> {
        self.stream(0).push(value)
    }

    /// Adds a whole message of stream 0. Its bytes are copied once.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.stream(0).push_message(message);
    }

    /// Sets the origin of all events that have no origin, in a format that the connector defines, such as a path or the
    /// address of a peer.
    pub fn set_origin(&mut self, origin: &str) {
        let index = self.keep(Value::from(origin.to_owned()));
        for event in self.events.iter_mut().filter(|event| event.origin == 0) {
            event.origin = index;
        }
    }

    /// Sets the origin of the events from `position` to the end, for a source with several peers. An earlier origin is
    /// replaced.
    pub fn set_origin_from(&mut self, position: usize, origin: &str) {
        if position < self.len() {
            let index = self.keep(Value::from(origin.to_owned()));
            self.events[position..].iter_mut().for_each(|event| event.origin = index);
        }
    }

    /// Divides the last event, which has to be a fragment, into several fragments, without a copy. `offsets` are offsets
    /// in its payload, in ascending order.
    pub fn divide_last_fragment(&mut self, offsets: impl IntoIterator<Item = usize>) {
        let Some(whole) = self.events.last().copied().filter(Event::is_fragment) else { return };
        self.events.pop();
        let Span { start, len } = whole.payload;
        let mut begin = 0;
        let ends = offsets.into_iter().filter_map(|offset| u32::try_from(offset).ok());
        for end in ends.filter(|end| *end < len).chain([len]) {
            if end > begin {
                let mut part = whole;
                part.payload = Span { start: start + begin, len: end - begin };
                self.events.push(part);
                begin = end;
            }
        }
    }

    /// Adds `value` to the table of values and returns its position plus one.
    pub(super) fn keep(&mut self, value: Value<'static>) -> u32 {
        self.values.push(value);
        narrow_location(self.values.len())
    }

    pub(super) fn push_span(&mut self, start: usize, len: usize, stream: u64, flags: EventFlags) {
        let span = Span { start: narrow(start), len: narrow(len) };
        self.events.push(Event::new(PayloadKind::RAW, flags, span, stream));
    }

    pub(super) fn bytes_mut(&mut self) -> &mut ByteBuffer {
        self.buffers_mut().0
    }

    /// Returns the buffers for writing. If other batches share the buffers, first copies them for this batch.
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
            None => unreachable!("a new storage has one reference"),
        }
    }
}

/// A handle that adds events of one stream of a source: a connection, a file, a partition.
pub struct Stream<'b> {
    batch: &'b mut Batch,
    stream: u64,
}

impl Stream<'_> {
    /// Adds a value of any type that serde can serialise. The value is written directly into the buffers of the batch.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the value's own `Serialize` fails or the value cannot be stored in a
    /// document; then nothing is added.
    pub fn push(&mut self, value: &(impl serde::Serialize + ?Sized)) -> Result<(), PluginError> {
        let (bytes, nodes) = self.batch.buffers_mut();
        let root = document::write(value, bytes, nodes).map_err(PluginError::bad_data)?;
        let span = Span { start: root, len: 0 };
        self.add(PayloadKind::DOCUMENT, EventFlags(0), span);
        Ok(())
    }

    /// Adds a whole message. Its bytes are copied once.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.push_raw(message, EventFlags(0));
    }

    /// Adds a part of a byte stream, cut at an arbitrary position. Preprocessors assemble messages from the fragments
    /// of a stream; without a preprocessor, the whole stream is one message.
    #[inline]
    pub fn push_fragment(&mut self, bytes: &[u8]) {
        self.push_raw(bytes, EventFlags::FRAGMENT);
    }

    /// Calls `read` with a slice of `space` bytes in the batch's buffer, and adds the bytes that were read as a
    /// fragment, without a copy. `read` returns the number of bytes that it has read; this method returns the same
    /// number.
    ///
    /// # Errors
    /// Returns the error of `read`; then nothing is added.
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

    /// Adds a fragment as [`Stream::read_fragment`] does, for functions that write to uninitialised memory, which saves
    /// filling the memory with zeros. `fill` returns the part that it filled, which must begin at the first byte of its
    /// argument, as `rustix::net::recv` does.
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
    /// Returns the error of `fill`; then nothing is added.
    ///
    /// # Panics
    /// Panics if `fill` returns a slice that does not begin at the first byte of its argument, or if the batch would
    /// exceed 4 GiB with `space` more bytes.
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

    /// Adds a whole message as [`Stream::fill_fragment`] adds a fragment, for example a datagram. An empty message is
    /// added too.
    ///
    /// # Errors
    /// Returns the error of `fill`; then nothing is added.
    ///
    /// # Panics
    /// Panics in the same cases as [`Stream::fill_fragment`].
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

    /// Ends the stream, whose last message is complete. When a source finishes, the runtime ends all its streams.
    pub fn end(&mut self) {
        self.add(PayloadKind::NONE, EventFlags::STREAM_END, Span::default());
    }

    /// Ends a stream that was cut off. If only a part of its last message was added, this message will never be
    /// completed: the incomplete message leaves by `err` or, if the source is transactional, the pulls that added the
    /// message fail.
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

/// Converts an offset to 32 bits. Panics if the offset is 4 GiB or more, which happens only if a plugin ignores the
/// limit of a pull; the panic becomes an error of the plugin. For bytes, the host uses [`span`](super::bounds::span),
/// which does not panic.
pub(super) fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).expect("a batch contains less than 4 GiB")
}

/// Converts the index of a root node, or the number of values, to a number to which 1 can be added without a collision
/// with [`IN_NODES`](super::event::IN_NODES). Panics if the batch has more nodes or values, as [`narrow`] does.
pub(super) fn narrow_location(index: usize) -> u32 {
    document::root_index(index).expect("a batch contains less than 2^31 nodes and values")
}
