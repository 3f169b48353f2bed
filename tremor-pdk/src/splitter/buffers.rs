//! Accounting of the memory for the unfinished messages of all streams of a splitter.

use super::{
    States,
    limits::{Limits, SHOWN, TooLong},
    stream::Stream,
};
use crate::Memory;

/// A counter of the buffered bytes of all streams of a splitter, which enforces the limits of these bytes.
pub(super) struct Buffers {
    bytes: usize,
    /// Number of streams whose bytes are counted.
    streams: usize,
    pub(super) limits: Limits,
    /// Counter of the bytes against the memory limit of the flow.
    memory: Memory,
}

impl Buffers {
    pub(super) fn new(limits: Limits, memory: Memory) -> Self {
        Self { bytes: 0, streams: 0, limits, memory }
    }

    /// Counts the bytes of `stream`, which the caller has removed from `states`.
    ///
    /// If all streams together exceed a limit, the largest unfinished message is discarded except for a few bytes. If
    /// only a single stream has an unfinished message, the message is kept, because `max_length` limits its length.
    pub(super) fn put<S>(&mut self, stream: &mut Stream<S>, states: &mut States<S>) {
        if footprint(stream) == 0 {
            return;
        }
        compact(stream);
        self.add(stream);
        while let Some(why) = self.excess() {
            let size = footprint(stream);
            // Finding the largest stream takes time linear in the number of streams. Therefore a stream that is larger
            // than the average is discarded without a comparison.
            let is_small = size.saturating_mul(self.streams) < self.bytes;
            let others = states.values_mut().filter(|_| is_small);
            let largest = others.max_by_key(|other| footprint(other));
            match largest.filter(|other| footprint(other) > size) {
                Some(largest) => self.discard(largest, why),
                None => return self.discard(stream, why),
            }
        }
    }

    /// Stops counting the bytes of `stream`.
    pub(super) fn take<S>(&mut self, stream: &mut Stream<S>) {
        let bytes = std::mem::take(&mut stream.counted);
        if bytes > 0 {
            self.bytes -= bytes;
            self.streams -= 1;
            // Reducing the number of bytes never fails.
            _ = self.memory.try_resize(self.bytes);
        }
    }

    /// Counts the bytes of `stream` regardless of limits.
    pub(super) fn add<S>(&mut self, stream: &mut Stream<S>) {
        let bytes = footprint(stream);
        stream.counted = bytes;
        self.bytes += bytes;
        self.streams += usize::from(bytes > 0);
    }

    /// Returns the number of bytes that are counted, and the number of streams with such bytes.
    #[cfg(all(test, feature = "testing", unix))]
    pub(super) fn used(&self) -> (usize, usize) {
        (self.bytes, self.streams)
    }

    fn discard<S>(&mut self, stream: &mut Stream<S>, why: TooLong) {
        self.take(stream);
        stream.exceed(why, Limits::KEPT);
    }

    /// Counts the buffered bytes in the memory of the flow. Returns the limit that these bytes exceed, if any.
    fn excess(&mut self) -> Option<TooLong> {
        let is_counted = self.memory.try_resize(self.bytes);
        if self.streams <= 1 {
            None
        } else if self.bytes > self.limits.together() {
            Some(TooLong::Together)
        } else {
            (!is_counted).then_some(TooLong::ForMemory)
        }
    }
}

/// Frees capacity of the buffer that only an earlier, longer message of the stream needed.
fn compact<S>(stream: &mut Stream<S>) {
    let length = stream.buffered.len();
    if stream.buffered.capacity() > SHOWN.max(2 * length) {
        stream.buffered.shrink_to(length);
    }
}

/// Returns the memory of the unfinished message in bytes, or 0 if the message is [small](Limits::KEPT).
fn footprint<S>(stream: &Stream<S>) -> usize {
    let shown = stream.excess.as_ref().map_or(0, |excess| excess.shown.capacity());
    let bytes = stream.buffered.capacity() + shown;
    // A message that was discarded to save memory keeps `KEPT` bytes of its beginning, and as many of its end.
    if bytes > 2 * Limits::KEPT { bytes } else { 0 }
}
