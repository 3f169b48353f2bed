//! Handles to events, with which authors read and edit events. A handle borrows its batch.

use super::{Batch, Event, Insertion, MetadataFields, Selection, StreamKey};
use crate::{
    document::{ValueRef, Writer},
    error::PluginError,
    value::Value,
};

/// A handle to an event of a batch.
#[derive(Clone, Copy)]
pub struct EventRef<'b> {
    batch: &'b Batch,
    event: &'b Event,
}

impl<'b> EventRef<'b> {
    #[inline]
    pub(super) const fn new(batch: &'b Batch, event: &'b Event) -> Self {
        Self { batch, event }
    }

    /// Returns the batch that the event belongs to.
    #[inline]
    pub const fn batch(self) -> &'b Batch {
        self.batch
    }

    /// Returns the position of the event in its batch, from 0. Within the closure of [`Batch::retain`], which moves
    /// events, the position is unspecified.
    #[inline]
    pub fn position(self) -> usize {
        let first = self.batch.events.as_slice().as_ptr().addr();
        let bytes = std::ptr::from_ref(self.event).addr().wrapping_sub(first);
        bytes / size_of::<Event>()
    }

    /// Returns the bytes of a raw payload, or `None` if the payload is a value or the event has none.
    #[inline]
    pub fn raw(self) -> Option<&'b [u8]> {
        self.batch.raw(self.event)
    }

    /// Returns the payload as a value, or `None` if the payload is raw or the event has none.
    #[inline]
    pub fn value(self) -> Option<ValueRef<'b>> {
        self.batch.value(self.event)
    }

    /// Returns the bytes that the event was decoded from; empty if it was not decoded from bytes.
    #[inline]
    pub fn original(self) -> &'b [u8] {
        self.batch.original(self.event)
    }

    /// Returns the origin of the event, a text that the connector chooses, such as a path or the address of a peer.
    #[inline]
    pub fn origin(self) -> Option<&'b str> {
        self.batch.origin(self.event)
    }

    /// Returns the metadata: information about the event besides its payload.
    #[inline]
    pub fn metadata(self) -> Option<ValueRef<'b>> {
        self.batch.metadata(self.event)
    }

    /// Returns a number that identifies the metadata in the batch, or 0 without metadata. Events of a batch with the
    /// same number have the same metadata. Equal metadata may have several numbers.
    #[inline]
    pub const fn metadata_id(self) -> u32 {
        self.event.metadata
    }

    /// Returns the key of the event's stream, such as a connection or a file. The key also identifies the source.
    #[inline]
    pub const fn stream(self) -> StreamKey {
        self.event.stream_key()
    }

    /// Returns the number of the pull that added the event.
    #[inline]
    pub const fn pull(self) -> u64 {
        self.event.pull
    }

    /// Returns the time when the event was read, in ns since the Unix epoch.
    #[inline]
    pub const fn ingest_ns(self) -> u64 {
        self.event.ingest_ns
    }

    /// Returns whether the payload is a part of a byte stream instead of a whole message.
    #[inline]
    pub const fn is_fragment(self) -> bool {
        self.event.is_fragment()
    }

    /// Returns whether the event marks the end of its stream, complete or aborted.
    #[inline]
    pub const fn is_stream_end(self) -> bool {
        self.event.is_stream_end()
    }

    /// Returns whether the event marks the end of a stream that was cut off, so that its last message may be
    /// incomplete.
    #[inline]
    pub const fn is_stream_aborted(self) -> bool {
        self.event.is_stream_aborted()
    }
}

impl<'b> EventRef<'b> {
    /// Returns the batch and the event's entry in the batch's list.
    pub(super) const fn parts(self) -> (&'b Batch, &'b Event) {
        (self.batch, self.event)
    }
}

impl From<EventRef<'_>> for Event {
    fn from(event: EventRef<'_>) -> Self {
        *event.event
    }
}

/// A handle to an event of a batch, for editing.
pub struct EventMut<'b> {
    batch: &'b mut Batch,
    position: usize,
    /// Number of the batch that an operator is processing; zero outside of a call of an operator.
    number: u64,
}

impl<'b> EventMut<'b> {
    #[inline]
    pub(super) const fn new(batch: &'b mut Batch, position: usize) -> Self {
        Self::of_call(batch, position, 0)
    }

    /// Creates a handle to an event of the batch that an operator is processing. The host numbers such batches.
    #[inline]
    pub(super) const fn of_call(batch: &'b mut Batch, position: usize, number: u64) -> Self {
        Self { batch, position, number }
    }

    /// Returns the number of the batch that the operator is processing, and the event.
    pub(super) fn event_of_call(&self) -> (u64, &Event) {
        (self.number, &self.batch.events[self.position])
    }

    /// Returns the batch, and the position of the event in it.
    pub(super) const fn in_batch(&mut self) -> (&mut Batch, usize) {
        (&mut *self.batch, self.position)
    }

    /// Sets the stream of the event, including the source, if `stream` is `Some`.
    pub(super) fn set_stream(&mut self, stream: Option<StreamKey>) {
        if let Some(stream) = stream {
            self.batch.events[self.position].set_stream_key(stream);
        }
    }

    /// Returns a handle for reading the event.
    #[inline]
    pub fn get(&self) -> EventRef<'_> {
        EventRef::new(self.batch, &self.batch.events[self.position])
    }

    /// Returns the payload for reading, or `None` if the payload is raw or the event has none.
    #[inline]
    pub fn value(&self) -> Option<ValueRef<'_>> {
        self.get().value()
    }

    /// Returns the payload for editing, or `None` if the payload is raw or the event has none. The first call converts
    /// the payload of this event to a [`Value`]; the other events of the batch stay unchanged.
    pub fn value_mut(&mut self) -> Option<&mut Value<'static>> {
        self.batch.value_mut(self.position)
    }

    /// Returns the time when the event was read, in ns since the Unix epoch.
    #[inline]
    pub fn ingest_ns(&self) -> u64 {
        self.get().ingest_ns()
    }

    /// Sets the time when the event was read, in ns since the Unix epoch. If the source does not set a time, the
    /// runtime sets the time after the pull.
    pub fn set_ingest_ns(&mut self, ingest_ns: u64) {
        self.batch.events[self.position].ingest_ns = ingest_ns;
    }

    /// Reduces the payload to the fields that `selection` names. Only nodes are copied, and not the text. Memory is
    /// allocated only if the buffers grow, or are shared with another batch.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the payload is not an object; the event is then unchanged.
    pub fn select(&mut self, selection: &mut Selection) -> Result<(), PluginError> {
        self.batch.select(self.position, selection)
    }

    /// Replaces the payload with the value that `write` writes directly into the batch's document. Memory is allocated
    /// only if the buffers grow, or are shared with another batch.
    ///
    /// # Errors
    /// Returns the error of `write`, or an error of kind "bad data" if `write` does not write exactly one value or the
    /// value cannot be stored in a document. The event is then unchanged.
    pub fn write_value(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        self.batch.write_value(self.position, write)
    }

    /// Inserts the value that `write` writes, at the position in the payload that `insertion` describes. The contents
    /// of other fields are not copied. Memory is allocated only if the buffers grow, or are shared with another batch.
    ///
    /// # Errors
    /// Returns the errors of [`EventMut::write_value`]. If the fields of the value are added to the payload, also
    /// returns an error of kind "bad data" if the value or the payload is not an object. The event is then unchanged.
    pub fn insert(
        &mut self,
        insertion: &mut Insertion,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        self.batch.insert(self.position, insertion, write)
    }

    /// Replaces the metadata of the event.
    pub fn set_metadata(&mut self, metadata: Value<'static>) {
        self.batch.set_metadata(self.position, metadata);
    }

    /// Returns the metadata for editing, which is an empty object if the event had no metadata. The metadata of other
    /// events stays unchanged.
    pub fn metadata_mut(&mut self) -> &mut Value<'static> {
        self.batch.metadata_mut(self.position)
    }

    /// Adds keys to the metadata. `write` writes the keys and their values into an object that already has the keys of
    /// the metadata. A key that exists gets the new value, and metadata that is not an object is replaced.
    ///
    /// Metadata that a source wrote is shared by its events. This call copies the nodes of such metadata, but copies
    /// the text only if another batch shares the buffers. The metadata of other events stays unchanged.
    ///
    /// # Errors
    /// Returns an error of kind "internal" if `write` writes anything but pairs of keys and values; the event then keeps
    /// its metadata.
    pub fn extend_metadata(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), PluginError> {
        self.batch.extend_metadata(self.position, write)
    }

    /// Adds fields that were written before to the metadata, with the same result as [`EventMut::extend_metadata`]. If
    /// the event has no metadata and no other batch shares the buffers, the nodes and the text of the fields are copied;
    /// otherwise the fields are written again.
    ///
    /// # Errors
    /// Returns an error of kind "internal" if the metadata would be nested too deeply or the buffers of the batch are
    /// full; the event then keeps its metadata.
    pub fn add_metadata(&mut self, fields: &MetadataFields) -> Result<(), PluginError> {
        self.batch.add_metadata(self.position, fields)
    }

    /// Replaces the metadata of the event with the value that `write` writes directly into the batch's document. Memory
    /// is allocated only if the buffers grow, or are shared with another batch.
    ///
    /// # Errors
    /// Returns an error of kind "internal" if `write` does not write exactly one value; the event then keeps its
    /// metadata.
    pub fn write_metadata(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), PluginError> {
        self.batch.write_metadata(self.position, write)
    }
}

/// An iterator over the events of a batch, in order.
#[derive(Clone)]
pub struct Events<'b> {
    batch: &'b Batch,
    events: std::slice::Iter<'b, Event>,
}

impl<'b> Iterator for Events<'b> {
    type Item = EventRef<'b>;

    #[inline]
    fn next(&mut self) -> Option<EventRef<'b>> {
        self.events.next().map(|event| EventRef::new(self.batch, event))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.events.size_hint()
    }
}

impl DoubleEndedIterator for Events<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.events.next_back().map(|event| EventRef::new(self.batch, event))
    }
}

impl ExactSizeIterator for Events<'_> {}

impl<'b> IntoIterator for &'b Batch {
    type Item = EventRef<'b>;
    type IntoIter = Events<'b>;

    #[inline]
    fn into_iter(self) -> Events<'b> {
        self.iter()
    }
}

impl Batch {
    /// Returns an iterator over the events, in order.
    #[inline]
    pub fn iter(&self) -> Events<'_> {
        Events { batch: self, events: self.events.iter() }
    }

    /// Returns the event at `position`, or `None` if the batch has no such position.
    #[inline]
    pub fn get(&self, position: usize) -> Option<EventRef<'_>> {
        self.events.get(position).map(|event| EventRef::new(self, event))
    }

    /// Returns the first event.
    #[inline]
    pub fn first(&self) -> Option<EventRef<'_>> {
        self.get(0)
    }

    /// Returns the last event for editing.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.get_mut(self.len().checked_sub(1)?)
    }

    /// Returns the event at `position` for editing, or `None` if the batch has no such position.
    #[inline]
    pub fn get_mut(&mut self, position: usize) -> Option<EventMut<'_>> {
        (position < self.len()).then(|| EventMut::new(self, position))
    }

    /// Calls `edit` for each event, in order.
    pub fn for_each_mut(&mut self, mut edit: impl FnMut(EventMut<'_>)) {
        for position in 0..self.len() {
            edit(EventMut::new(self, position));
        }
    }
}
