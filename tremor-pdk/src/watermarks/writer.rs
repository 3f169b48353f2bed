//! Pushing events with their positions.

use std::{marker::PhantomData, ops::Deref};

use serde::Serialize;

use super::Watermarks;
use crate::{EventMut, Form, Raw, Result, Stream, Structured, TypedBatch};

/// Named by the compiler when a [`PositionWriter`] is kept across an `await`.
enum NotAcrossAwait {}

/// Pushes events to the batch of a pull, and records their positions: see [`Watermarks::begin`].
///
/// A position is the end of an event: where reading continues after it. Positions of one stream grow. The methods of
/// [`TypedBatch`] that only read can be called as well.
///
/// Not `Send`, so that a pull cannot keep it across an `await`.
pub struct PositionWriter<'b, P: Clone, F: Form> {
    marks: &'b Watermarks<P>,
    batch: &'b mut TypedBatch<F>,
    /// Stream and position of the last event, which `marks` does not have yet.
    last: Option<(u64, P)>,
    is_not_send: PhantomData<*const NotAcrossAwait>,
}

impl<'b, P: Clone, F: Form> PositionWriter<'b, P, F> {
    pub(super) fn new(marks: &'b Watermarks<P>, batch: &'b mut TypedBatch<F>) -> Self {
        Self { marks, batch, last: None, is_not_send: PhantomData }
    }

    /// Returns the stream `stream` of the batch, to push events of it in another way, such as fragments. `position` is
    /// the end of these events, and is recorded in any case.
    #[inline]
    pub fn stream(&mut self, stream: u64, position: P) -> Stream<'_, F> {
        self.stream_of(stream, stream, position)
    }

    /// Returns the stream `stream` of the batch, whose positions are those of `of`: for a source with several streams
    /// and one position, such as a replication log with a stream for each table.
    #[inline]
    pub fn stream_of(&mut self, stream: u64, of: u64, position: P) -> Stream<'_, F> {
        self.record(of, position);
        self.batch.stream(stream)
    }

    /// Records a position of `stream` without an event: what was read up to there makes none.
    pub fn skip(&mut self, stream: u64, position: P) {
        self.record(stream, position);
    }

    /// Exchanges the contents of the batch with `filled`, a batch of `stream` that was filled elsewhere, such as on
    /// another thread. `position` is the end of its events. The batch of the pull is empty before that.
    pub fn exchange(&mut self, stream: u64, position: P, filled: &mut TypedBatch<F>) {
        self.batch.exchange(filled);
        self.record(stream, position);
    }

    /// Returns the last event, to set its metadata.
    #[inline]
    pub fn last_mut(&mut self) -> Option<EventMut<'_>> {
        self.batch.last_mut()
    }

    #[inline]
    fn record(&mut self, stream: u64, position: P) {
        match &mut self.last {
            Some((last, end)) if *last == stream => *end = position,
            last => {
                if let Some((stream, position)) = last.replace((stream, position)) {
                    self.marks.record(self.batch.pull(), stream, position);
                }
            }
        }
    }
}

impl<P: Clone> PositionWriter<'_, P, Structured> {
    /// Pushes a value, as [`Stream::push`] does.
    ///
    /// # Errors
    /// The errors of [`Stream::push`]; no event is pushed then, and no position recorded.
    pub fn push(
        &mut self,
        stream: u64,
        position: P,
        value: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        self.batch.stream(stream).push(value)?;
        self.record(stream, position);
        Ok(())
    }
}

impl<P: Clone> PositionWriter<'_, P, Raw> {
    /// Pushes a whole message.
    #[inline]
    pub fn push_message(&mut self, stream: u64, position: P, message: &[u8]) {
        self.batch.stream(stream).push_message(message);
        self.record(stream, position);
    }
}

impl<P: Clone, F: Form> Deref for PositionWriter<'_, P, F> {
    type Target = TypedBatch<F>;

    fn deref(&self) -> &TypedBatch<F> {
        self.batch
    }
}

impl<P: Clone, F: Form> Drop for PositionWriter<'_, P, F> {
    /// Records the last position, before the runtime has the batch.
    fn drop(&mut self) {
        if let Some((stream, position)) = self.last.take() {
            self.marks.record(self.batch.pull(), stream, position);
        }
    }
}

impl<P: Clone, F: Form> std::fmt::Debug for PositionWriter<'_, P, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PositionWriter")
    }
}
