//! The batches that sources fill and sinks receive. All events of such a batch have the same form, either bytes or
//! values.

mod stream;

use std::{fmt, marker::PhantomData, ops::Range};

use serde::Serialize;
use tremor_abi::batch::{self as abi, Events};

pub use self::stream::Stream;
use crate::{Batch, EventMut, EventRef, Origin, Result, StreamKey, ValueRef};

/// Maximum number of events and bytes that a pull should add to a batch. A source that has already read a message may
/// exceed the limit by that message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Maximum number of events.
    pub events: usize,
    /// Maximum bytes of payload.
    pub bytes: usize,
}

impl Default for Limit {
    /// Returns a limit of 256 events or 256 KiB.
    fn default() -> Self {
        abi::Limit::default().into()
    }
}

impl From<abi::Limit> for Limit {
    fn from(limit: abi::Limit) -> Self {
        Self { events: limit.events as usize, bytes: limit.bytes as usize }
    }
}

impl From<Limit> for abi::Limit {
    fn from(limit: Limit) -> Self {
        let narrow = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { events: narrow(limit.events), bytes: narrow(limit.bytes) }
    }
}

/// A batch of bytes: messages or parts of streams, which a codec of the flow decodes and encodes.
///
/// Values cannot be added to a raw batch:
///
/// ```compile_fail,E0599
/// # use tremor_pdk::prelude::*;
/// struct Bytes;
///
/// impl Source for Bytes {
///     type Batch = RawBatch;
///
///     async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
///         batch.push(&1)?; // the method was found for `TypedBatch<Structured>`
///         Ok(Pull::Events)
///     }
/// }
/// ```
pub type RawBatch = TypedBatch<Raw>;

/// A batch of values, which need no codec.
///
/// Bytes cannot be added to a structured batch:
///
/// ```compile_fail,E0599
/// # use tremor_pdk::prelude::*;
/// struct Values;
///
/// impl Source for Values {
///     type Batch = StructuredBatch;
///
///     async fn pull(&mut self, batch: &mut StructuredBatch) -> Result<Pull> {
///         batch.push_message(b"1"); // the method was found for `TypedBatch<Raw>`
///         Ok(Pull::Events)
///     }
/// }
/// ```
pub type StructuredBatch = TypedBatch<Structured>;

/// An event of a [`RawBatch`].
pub type RawEvent<'b> = TypedEvent<'b, Raw>;

/// An event of a [`StructuredBatch`].
pub type StructuredEvent<'b> = TypedEvent<'b, Structured>;

/// The form of events that are bytes.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

/// The form of events that are values.
#[derive(Clone, Copy, Debug)]
pub enum Structured {}

/// A form of events: [`Raw`] or [`Structured`].
pub trait Form: sealed::Form {}

impl Form for Raw {}

impl Form for Structured {}

/// A batch that a source fills or a sink gets: [`RawBatch`] or [`StructuredBatch`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not state the form of its events",
    label = "use `RawBatch` or `StructuredBatch`",
    note = "a `RawBatch` has bytes, for which the flow names a codec; a `StructuredBatch` has values"
)]
pub trait AnyBatch: sealed::Typed {}

impl<F: Form> AnyBatch for TypedBatch<F> {}

pub(crate) mod sealed {
    use super::{Batch, EventRef, Raw, Structured, TypedBatch, ValueRef};

    pub trait Form: Copy + Send + Sync + 'static {
        type Payload<'b>: Copy;
        const IS_RAW: bool;

        fn payload(event: EventRef<'_>) -> Option<Self::Payload<'_>>;
    }

    impl Form for Raw {
        type Payload<'b> = &'b [u8];
        const IS_RAW: bool = true;

        #[inline]
        fn payload(event: EventRef<'_>) -> Option<&[u8]> {
            event.raw()
        }
    }

    impl Form for Structured {
        type Payload<'b> = ValueRef<'b>;
        const IS_RAW: bool = false;

        #[inline]
        fn payload(event: EventRef<'_>) -> Option<ValueRef<'_>> {
            event.value()
        }
    }

    pub trait Typed: Default + Send + Sync + 'static {
        const IS_RAW: bool;

        /// Returns the untyped batch, which is the form in which plugin and runtime exchange batches.
        fn untyped(&mut self) -> &mut Batch;
    }

    impl<F: super::Form> Typed for TypedBatch<F> {
        const IS_RAW: bool = F::IS_RAW;

        #[inline]
        fn untyped(&mut self) -> &mut Batch {
            &mut self.batch
        }
    }
}

/// A batch whose events have one form: [`RawBatch`] or [`StructuredBatch`].
///
/// Iterating skips ends of streams, because an end has neither bytes nor a value; [`len`](Self::len) counts ends too.
#[derive(Clone)]
pub struct TypedBatch<F> {
    batch: Batch,
    form: PhantomData<F>,
}

impl<F: Form> TypedBatch<F> {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of events, ends of streams included.
    #[inline]
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns `true` if the batch contains neither events nor ends of streams.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Returns whether the limit is reached, so that a source should return.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Returns the maximum number of events and bytes that a pull should add.
    pub fn limit(&self) -> Limit {
        self.batch.limit().into()
    }

    /// Returns the number of the pull that fills the batch, by which [`Acks`](crate::Acks) identify the pull.
    ///
    /// Numbers start at 1 in each connection and grow. After a pull that adds no event, the next pull has the same
    /// number.
    #[inline]
    pub fn pull(&self) -> u64 {
        self.batch.pull()
    }

    /// Returns the bytes that contain the messages and documents. This includes bytes of events that were filtered out.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.batch.bytes()
    }

    /// Returns a batch with the given range of events, which shares the bytes of this batch.
    ///
    /// For example, `part(0..0)` has no events, but lets another thread read the bytes.
    ///
    /// # Panics
    /// Panics if the range is not within the batch.
    #[must_use]
    pub fn part(&self, events: Range<usize>) -> Self {
        Self { batch: self.batch.part(events), form: PhantomData }
    }

    /// Sets the number of the pull. The runtime calls this method before it pulls.
    pub fn set_pull(&mut self, pull: u64) {
        self.batch.set_pull(pull);
    }

    /// Sets the maximum number of events and bytes that a pull should add. The runtime calls this method before it
    /// pulls.
    pub fn set_limit(&mut self, limit: Limit) {
        self.batch.set_limit(limit);
    }

    /// Exchanges the contents with a batch that was filled elsewhere, for example on another thread. Each batch keeps
    /// its own limit and pull number.
    pub fn exchange(&mut self, other: &mut Self) {
        self.batch.exchange(&mut other.batch);
    }

    /// Divides the event that was added last, which has to be a fragment, into several fragments, without a copy.
    /// `offsets` are offsets in its payload, in ascending order.
    ///
    /// A source that adds each fragment with its own position can be acknowledged up to the end of any fragment, see
    /// [`PositionWriter::exchange_parts`](crate::PositionWriter::exchange_parts).
    pub fn divide_last_fragment(&mut self, offsets: impl IntoIterator<Item = usize>) {
        self.batch.divide_last_fragment(offsets);
    }

    /// Returns a handle that adds events of the stream with the number `stream`.
    #[inline]
    pub fn stream(&mut self, stream: u64) -> Stream<'_, F> {
        Stream::new(self.batch.stream(stream))
    }

    /// Sets the origin of all events that have no origin yet. The connector chooses the text, such as a path or the
    /// address of a peer.
    pub fn set_origin(&mut self, origin: &str) {
        self.batch.set_origin(origin);
    }

    /// Sets the origin of the events from `position` to the end, for a source with several peers. An earlier origin is
    /// replaced.
    pub fn set_origin_from(&mut self, position: usize, origin: &str) {
        self.batch.set_origin_from(position, origin);
    }

    /// Sets the origin of the events from `position` to the end, and the metadata that all events of the origin share.
    /// An earlier origin and earlier metadata are replaced.
    ///
    /// All these events, and all messages that are cut from them, refer to one copy of the metadata. Therefore a source
    /// whose metadata describes a file or a connection creates an [`Origin`] once, and writes no metadata for single
    /// events.
    pub fn apply_origin(&mut self, position: usize, origin: &Origin) {
        self.batch.apply_origin(position, origin);
    }

    /// Returns the event that was added last, to set its metadata.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.batch.last_mut()
    }

    /// Calls `edit` for each event, in order.
    pub fn for_each_mut(&mut self, edit: impl FnMut(EventMut<'_>)) {
        self.batch.for_each_mut(edit);
    }

    /// Returns the events, in order.
    #[inline]
    pub fn iter(&self) -> TypedEvents<'_, F> {
        TypedEvents { events: self.batch.iter(), form: PhantomData }
    }

    /// Returns the event at `position`. Returns `None` if the position is out of bounds or is that of the end of a
    /// stream.
    #[inline]
    pub fn get(&self, position: usize) -> Option<TypedEvent<'_, F>> {
        self.batch.get(position).and_then(TypedEvent::new)
    }

    /// Returns the first event that is not the end of a stream.
    #[inline]
    pub fn first(&self) -> Option<TypedEvent<'_, F>> {
        self.iter().next()
    }
}

impl TypedBatch<Raw> {
    /// Adds a whole message of stream 0.
    #[inline]
    pub fn push_message(&mut self, message: &[u8]) {
        self.batch.push_message(message);
    }
}

impl TypedBatch<Structured> {
    /// Adds a value of stream 0: see [`Stream::push`].
    ///
    /// # Errors
    /// Returns the errors of [`Stream::push`].
    pub fn push(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.batch.push(value)
    }
}

impl<F: Form> Default for TypedBatch<F> {
    fn default() -> Self {
        Self { batch: Batch::new(), form: PhantomData }
    }
}

impl<F> From<TypedBatch<F>> for Batch {
    fn from(batch: TypedBatch<F>) -> Self {
        batch.batch
    }
}

/// Converts an untyped batch, for tests that do not fill the batch as a source does. Iterating skips events of the
/// other form.
impl<F: Form> From<Batch> for TypedBatch<F> {
    fn from(batch: Batch) -> Self {
        Self { batch, form: PhantomData }
    }
}

impl<F> fmt::Debug for TypedBatch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.batch.fmt(f)
    }
}

impl<'b, F: Form> IntoIterator for &'b TypedBatch<F> {
    type Item = TypedEvent<'b, F>;
    type IntoIter = TypedEvents<'b, F>;

    #[inline]
    fn into_iter(self) -> TypedEvents<'b, F> {
        self.iter()
    }
}

/// Events of a [`TypedBatch`], in order, without the ends of streams.
#[derive(Clone)]
pub struct TypedEvents<'b, F> {
    events: Events<'b>,
    form: PhantomData<F>,
}

impl<'b, F: Form> Iterator for TypedEvents<'b, F> {
    type Item = TypedEvent<'b, F>;

    #[inline]
    fn next(&mut self) -> Option<TypedEvent<'b, F>> {
        self.events.find_map(TypedEvent::new)
    }
}

impl<F: Form> DoubleEndedIterator for TypedEvents<'_, F> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.events.by_ref().rev().find_map(TypedEvent::new)
    }
}

/// An event of a [`TypedBatch`]: a [`RawEvent`] or a [`StructuredEvent`].
#[derive(Clone, Copy)]
pub struct TypedEvent<'b, F: Form> {
    event: EventRef<'b>,
    payload: F::Payload<'b>,
}

impl<'b, F: Form> TypedEvent<'b, F> {
    #[inline]
    fn new(event: EventRef<'b>) -> Option<Self> {
        Some(Self { event, payload: F::payload(event)? })
    }

    /// Returns the position of the event in its batch, from 0.
    #[inline]
    pub fn position(self) -> usize {
        self.event.position()
    }

    /// Returns the origin of the event as set by its connector, such as a path or the address of a peer.
    #[inline]
    pub fn origin(self) -> Option<&'b str> {
        self.event.origin()
    }

    /// Returns the metadata: information about the event besides its payload.
    #[inline]
    pub fn metadata(self) -> Option<ValueRef<'b>> {
        self.event.metadata()
    }

    /// Returns the stream, such as a connection or a file, together with its source.
    #[inline]
    pub const fn stream(self) -> StreamKey {
        self.event.stream()
    }

    /// Returns the time at which the event entered the flow, in ns since the Unix epoch.
    #[inline]
    pub const fn ingest_ns(self) -> u64 {
        self.event.ingest_ns()
    }
}

impl<'b> TypedEvent<'b, Raw> {
    /// Returns the bytes of the message or fragment.
    #[inline]
    pub const fn raw(self) -> &'b [u8] {
        self.payload
    }

    /// Returns whether the bytes are a part of a stream, rather than a whole message.
    #[inline]
    pub const fn is_fragment(self) -> bool {
        self.event.is_fragment()
    }
}

impl<'b> TypedEvent<'b, Structured> {
    /// Returns the value of the event.
    #[inline]
    pub const fn value(self) -> ValueRef<'b> {
        self.payload
    }
}

impl<'b, F: Form> From<TypedEvent<'b, F>> for EventRef<'b> {
    #[inline]
    fn from(event: TypedEvent<'b, F>) -> Self {
        event.event
    }
}

#[cfg(test)]
mod tests {
    use super::{RawBatch, RawEvent, StructuredBatch, ValueRef};

    #[test]
    fn iterating_skips_ends_of_streams() {
        let mut batch = RawBatch::new();
        batch.stream(0).end();
        batch.stream(1).push_message(b"one");
        batch.stream(1).abort();
        batch.push_message(b"");
        batch.stream(2).end();
        let seen: Vec<_> = batch.iter().map(|event| (event.position(), event.raw())).collect();
        assert_eq!(seen, [(1, &b"one"[..]), (3, b"")]);
        assert_eq!(batch.iter().next_back().map(RawEvent::position), Some(3));
        assert_eq!(batch.first().map(|event| event.stream().number()), Some(1));
        assert!(batch.get(0).is_none() && batch.get(1).is_some() && batch.get(5).is_none());
        assert_eq!(batch.len(), 5);
    }

    #[test]
    fn structured_event_has_its_value_and_metadata() {
        let mut batch = StructuredBatch::new();
        batch.stream(7).push(&[1, 2]).unwrap();
        batch.last_mut().unwrap().set_metadata("known".into());
        let event = batch.first().unwrap();
        assert_eq!((event.value().to_string(), event.stream().number()), ("[1,2]".to_owned(), 7));
        assert_eq!(event.metadata().and_then(ValueRef::as_str), Some("known"));
    }
}
