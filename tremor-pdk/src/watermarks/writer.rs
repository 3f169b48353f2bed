//! The writer that adds events with their positions to a batch.

use std::{marker::PhantomData, ops::Deref};

use serde::Serialize;

use super::{Part, Watermarks};
use crate::{EventMut, Form, Raw, Result, Stream, Structured, TypedBatch};

/// A type that appears in the compiler error if a [`PositionWriter`] is kept across an `await`.
enum NotAcrossAwait {}

/// A writer that adds events to the batch of a pull, and records their positions: see [`Watermarks::begin`].
/// Dereferences to [`TypedBatch`] for reading.
///
/// The position that is passed with an event is the end of the event, at which the next event begins. Positions of one
/// stream must grow.
///
/// The writer is not `Send`, so that a pull cannot keep it across an `await`.
pub struct PositionWriter<'b, P: Clone, F: Form> {
    marks: &'b Watermarks<P>,
    batch: &'b mut TypedBatch<F>,
    /// Parts that are not recorded in `marks` yet.
    parts: Vec<Part<P>>,
    is_not_send: PhantomData<*const NotAcrossAwait>,
}

impl<'b, P: Clone, F: Form> PositionWriter<'b, P, F> {
    pub(super) fn new(marks: &'b Watermarks<P>, batch: &'b mut TypedBatch<F>) -> Self {
        Self { marks, batch, parts: Vec::new(), is_not_send: PhantomData }
    }

    /// Returns the stream `stream` of the batch, to add events that this writer has no method for, such as fragments.
    /// `position` is the end of these events, and is recorded even if no event is added.
    #[inline]
    pub fn stream(&mut self, stream: u64, position: P) -> Stream<'_, F> {
        self.stream_of(stream, stream, position)
    }

    /// Returns the stream `stream` of the batch, and records `position` for the stream `of`. Use this method for a
    /// source with several streams that share one position, such as a replication log with a stream for each table.
    #[inline]
    pub fn stream_of(&mut self, stream: u64, of: u64, position: P) -> Stream<'_, F> {
        self.record(self.batch.len(), of, position);
        self.batch.stream(stream)
    }

    /// Records a position of `stream` without an event, because the data up to the position contains none.
    pub fn skip(&mut self, stream: u64, position: P) {
        self.record(self.batch.len(), stream, position);
    }

    /// Exchanges the contents of the batch with those of `filled`, which contains events of `stream` and was filled
    /// elsewhere, for example on another thread. `position` is the end of the last of these events. The batch of the
    /// pull must be empty before.
    pub fn exchange(&mut self, stream: u64, position: P, filled: &mut TypedBatch<F>) {
        self.exchange_parts(stream, &[], position, filled);
    }

    /// Exchanges the contents as [`PositionWriter::exchange`] does. `ends` are the positions after the first events, one
    /// for each event, and `position` is the end of all events.
    pub fn exchange_parts(
        &mut self,
        stream: u64,
        ends: &[P],
        position: P,
        filled: &mut TypedBatch<F>,
    ) {
        self.batch.exchange(filled);
        ends.iter().enumerate().for_each(|(at, end)| self.record(at, stream, end.clone()));
        self.record(ends.len(), stream, position);
    }

    /// Returns the event that was added last, to set its metadata.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.batch.last_mut()
    }

    /// Records the position after the events of `stream` that begin at the position `begin` of the batch.
    #[inline]
    fn record(&mut self, begin: usize, stream: u64, position: P) {
        self.parts.push(Part { begin, stream, position });
    }
}

impl<P: Clone> PositionWriter<'_, P, Structured> {
    /// Adds a value of `stream`, as [`Stream::push`] does.
    ///
    /// # Errors
    /// Returns the errors of [`Stream::push`]. After an error, no event is added and no position is recorded.
    pub fn push(
        &mut self,
        stream: u64,
        position: P,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        self.batch.stream(stream).push(value)?;
        self.record(self.batch.len() - 1, stream, position);
        Ok(())
    }
}

impl<P: Clone> PositionWriter<'_, P, Raw> {
    /// Adds a whole message of `stream`.
    #[inline]
    pub fn push_message(&mut self, stream: u64, position: P, message: &[u8]) {
        self.record(self.batch.len(), stream, position);
        self.batch.stream(stream).push_message(message);
    }
}

impl<P: Clone, F: Form> Deref for PositionWriter<'_, P, F> {
    type Target = TypedBatch<F>;

    fn deref(&self) -> &TypedBatch<F> {
        self.batch
    }
}

impl<P: Clone, F: Form> Drop for PositionWriter<'_, P, F> {
    /// Records the positions before the runtime gets the batch.
    fn drop(&mut self) {
        if !self.parts.is_empty() {
            self.marks.record(self.batch.pull(), std::mem::take(&mut self.parts));
        }
    }
}

impl<P: Clone, F: Form> std::fmt::Debug for PositionWriter<'_, P, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PositionWriter")
    }
}
