//! Events as authors see them: handles that belong to their batch, and cannot be used with another.

use super::{Batch, Event, Selection, StreamKey};
use crate::{
    document::{ValueRef, Writer},
    error::PluginError,
    value::Value,
};

/// An event of a batch.
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

    /// Returns the position of the event in its batch, from 0. Within [`Batch::retain`], which moves events, the
    /// position is unspecified.
    #[inline]
    pub fn position(self) -> usize {
        let first = self.batch.events.as_slice().as_ptr().addr();
        let bytes = std::ptr::from_ref(self.event).addr().wrapping_sub(first);
        bytes / size_of::<Event>()
    }

    /// The bytes of a raw payload; `None` where the payload is a value, or there is none.
    #[inline]
    pub fn raw(self) -> Option<&'b [u8]> {
        self.batch.raw(self.event)
    }

    /// The payload as a value; `None` where it is raw, or there is none.
    #[inline]
    pub fn value(self) -> Option<ValueRef<'b>> {
        self.batch.value(self.event)
    }

    /// The bytes that the event was decoded from; empty where there were none.
    #[inline]
    pub fn original(self) -> &'b [u8] {
        self.batch.original(self.event)
    }

    /// Where the event came from in the connector's own words: a path, a peer's address.
    #[inline]
    pub fn origin(self) -> Option<&'b str> {
        self.batch.origin(self.event)
    }

    /// What is known about the event besides its payload; usually nothing.
    #[inline]
    pub fn metadata(self) -> Option<ValueRef<'b>> {
        self.batch.metadata(self.event)
    }

    /// Returns the stream, such as a connection or a file. The key includes the source: a state that is kept
    /// by key does not mix streams of two sources.
    #[inline]
    pub const fn stream(self) -> StreamKey {
        self.event.stream_key()
    }

    /// The pull of the source that brought it.
    #[inline]
    pub const fn pull(self) -> u64 {
        self.event.pull
    }

    /// When it came in, in ns since the Unix epoch.
    #[inline]
    pub const fn ingest_ns(self) -> u64 {
        self.event.ingest_ns
    }

    /// Whether the payload is a part of a byte stream and not a whole message.
    #[inline]
    pub const fn is_fragment(self) -> bool {
        self.event.is_fragment()
    }

    /// Whether the event marks the end of its stream, complete or aborted.
    #[inline]
    pub const fn is_stream_end(self) -> bool {
        self.event.is_stream_end()
    }

    /// Whether the event marks the end of a stream that was cut off: no message is complete by it.
    #[inline]
    pub const fn is_stream_aborted(self) -> bool {
        self.event.is_stream_aborted()
    }
}

impl<'b> EventRef<'b> {
    /// Returns the batch, and the entry of its list.
    pub(super) const fn parts(self) -> (&'b Batch, &'b Event) {
        (self.batch, self.event)
    }
}

impl From<EventRef<'_>> for Event {
    fn from(event: EventRef<'_>) -> Self {
        *event.event
    }
}

/// An event of a batch, to edit.
pub struct EventMut<'b> {
    batch: &'b mut Batch,
    position: usize,
    /// The number of the batch within a call of an operator; zero otherwise.
    number: u64,
}

impl<'b> EventMut<'b> {
    #[inline]
    pub(super) const fn new(batch: &'b mut Batch, position: usize) -> Self {
        Self::of_call(batch, position, 0)
    }

    /// An event of the batch that an operator is called with.
    #[inline]
    pub(super) const fn of_call(batch: &'b mut Batch, position: usize, number: u64) -> Self {
        Self { batch, position, number }
    }

    /// Returns the number of the batch in hand, and the event.
    pub(super) fn in_hand(&self) -> (u64, &Event) {
        (self.number, &self.batch.events[self.position])
    }

    /// Sets the stream, with its source.
    pub(super) fn set_stream(&mut self, stream: Option<StreamKey>) {
        if let Some(stream) = stream {
            self.batch.events[self.position].set_stream_key(stream);
        }
    }

    /// The event, to read.
    #[inline]
    pub fn get(&self) -> EventRef<'_> {
        EventRef::new(self.batch, &self.batch.events[self.position])
    }

    /// The payload, to read; `None` where it is raw, or there is none.
    #[inline]
    pub fn value(&self) -> Option<ValueRef<'_>> {
        self.get().value()
    }

    /// The payload, to edit. The first edit turns this event, and no other, from a part of the batch's
    /// document into a value of its own. `None` where the payload is raw, or there is none.
    pub fn value_mut(&mut self) -> Option<&mut Value<'static>> {
        self.batch.value_mut(self.position)
    }

    /// Says when it came in, in ns since the Unix epoch. Otherwise the runtime does, after the pull.
    pub fn set_ingest_ns(&mut self, ingest_ns: u64) {
        self.batch.events[self.position].ingest_ns = ingest_ns;
    }

    /// Keeps of the payload the fields that `selection` says. The event gets nodes of its own, and shares
    /// its text with what it was: nothing is allocated unless the buffers grow or are shared with another
    /// batch.
    ///
    /// # Errors
    /// Bad data, where the payload is not an object. The event is as it was then.
    pub fn select(&mut self, selection: &mut Selection) -> Result<(), PluginError> {
        self.batch.select(self.position, selection)
    }

    /// Gives it metadata in place of what it had.
    pub fn set_metadata(&mut self, metadata: Value<'static>) {
        self.batch.set_metadata(self.position, metadata);
    }

    /// Its metadata, to edit: an empty object where there was none. Others that shared it keep theirs.
    pub fn metadata_mut(&mut self) -> &mut Value<'static> {
        self.batch.metadata_mut(self.position)
    }

    /// Gives it metadata in place of what it had: what `write` writes, straight into the batch's document.
    /// Nothing is allocated for it, unless the buffers are shared with another batch.
    ///
    /// # Errors
    /// Internal, where `write` does not write exactly one value; the event keeps what it had.
    pub fn write_metadata(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(), PluginError> {
        self.batch.write_metadata(self.position, write)
    }
}

/// The events of a batch, in order.
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
    /// The events, in order.
    #[inline]
    pub fn iter(&self) -> Events<'_> {
        Events { batch: self, events: self.events.iter() }
    }

    /// The event at a position; `None` where there are not so many.
    #[inline]
    pub fn get(&self, position: usize) -> Option<EventRef<'_>> {
        self.events.get(position).map(|event| EventRef::new(self, event))
    }

    /// The first event.
    #[inline]
    pub fn first(&self) -> Option<EventRef<'_>> {
        self.get(0)
    }

    /// The last event, to edit: the one that was added last.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.get_mut(self.len().checked_sub(1)?)
    }

    /// The event at a position, to edit; `None` where there are not so many.
    #[inline]
    pub fn get_mut(&mut self, position: usize) -> Option<EventMut<'_>> {
        (position < self.len()).then(|| EventMut::new(self, position))
    }

    /// Has each event edited, in order.
    pub fn for_each_mut(&mut self, mut edit: impl FnMut(EventMut<'_>)) {
        for position in 0..self.len() {
            edit(EventMut::new(self, position));
        }
    }
}
