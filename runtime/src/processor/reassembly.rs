//! Messages that are put together from pieces, up to a limit.

use tremor_pdk::{
    Error, Memory,
    abi::batch::{Cutter, Rejected},
};

use super::streams::States;

/// The longest message that is taken unless a flow says otherwise, in bytes: decoded, it may have
/// what any event may have.
const MAX_LENGTH: usize = 4 << 20;

pub(super) const fn max_length() -> usize {
    MAX_LENGTH
}

/// How much of a message that is too long its dead letter shows. Bytes.
const SHOWN: usize = Rejected::SHOWN;

/// Bytes that are kept of a message whose beginning was discarded. Beginnings of this size are not counted: they take
/// no more than what a connection takes besides.
const KEPT: usize = 64;

/// What the beginnings of messages of all streams may take together, in bytes, where one alone may
/// not take more.
const HELD: usize = 8 * MAX_LENGTH;

/// How much one preprocessor holds of all streams.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    /// Number of streams that the bytes belong to.
    streams: usize,
    /// The longest message.
    limit: usize,
    /// What flows call the preprocessor.
    name: &'static str,
    /// Counts the bytes in the memory of the flow. `None` in tests.
    memory: Option<Memory>,
}

impl Held {
    pub(super) fn new(name: &'static str, limit: usize, memory: impl Into<Option<Memory>>) -> Self {
        Self { bytes: 0, streams: 0, limit, name, memory: memory.into() }
    }

    /// Puts a beginning aside until its stream goes on, beside those in `states`, which `partial_of` finds.
    ///
    /// If all of them take too much, the largest is discarded, but for a few bytes to be shown. The only one is kept:
    /// its length is limited, and nothing that waits for memory would help it.
    pub(super) fn put<S>(
        &mut self,
        partial: &mut Partial,
        states: &mut States<S>,
        partial_of: impl Fn(&mut S) -> Option<&mut Partial>,
    ) {
        partial.compact();
        self.add(partial);
        while let Some(why) = self.excess() {
            let size = partial.footprint();
            // Looking for the largest takes time. One that is larger than most need not be compared.
            let is_small = size.saturating_mul(self.streams) < self.bytes;
            let others = states.values_mut().filter(|_| is_small).filter_map(&partial_of);
            match others.max_by_key(|other| other.footprint()).filter(|it| it.footprint() > size) {
                Some(largest) => self.give_up(largest, why),
                None => return self.give_up(partial, why),
            }
        }
    }

    /// A beginning that was put aside is taken up again.
    pub(super) fn take(&mut self, partial: &Partial) {
        let bytes = partial.footprint();
        if bytes > 0 {
            self.bytes -= bytes;
            self.streams -= 1;
            // Fewer bytes are never refused.
            _ = self.count();
        }
    }

    fn add(&mut self, partial: &Partial) {
        let bytes = partial.footprint();
        self.bytes += bytes;
        self.streams += usize::from(bytes > 0);
    }

    fn give_up(&mut self, partial: &mut Partial, why: TooLong) {
        self.take(partial);
        partial.give_up(KEPT, why);
    }

    /// Counts what is held. Returns the reason why it is too much, if it is.
    fn excess(&mut self) -> Option<TooLong> {
        let is_counted = self.count();
        if self.streams <= 1 {
            None
        } else if self.bytes > self.limit.max(HELD) {
            Some(TooLong::Together)
        } else {
            (!is_counted).then_some(TooLong::ForMemory)
        }
    }

    /// Returns whether the memory of the flow has what is held.
    fn count(&mut self) -> bool {
        self.memory.as_mut().is_none_or(|memory| memory.try_resize(self.bytes))
    }
}

/// The beginning of a message whose end has not come yet.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    /// The beginning, up to the limit; of a message that exceeds it, what will be shown.
    bytes: Vec<u8>,
    /// How long a message that exceeds a limit is so far, and which.
    excess: Option<(usize, TooLong)>,
}

/// Why no more is kept of a message.
#[derive(Clone, Copy, Debug)]
enum TooLong {
    /// It is longer than a message may be.
    Alone,
    /// With it, the beginnings of all streams take more than they may.
    Together,
    /// With it, the flow takes more memory than it may.
    ForMemory,
}

impl Partial {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.excess.is_none()
    }

    /// Frees the part of the buffer that an earlier, longer message of the stream needed.
    fn compact(&mut self) {
        let length = self.bytes.len();
        if self.bytes.capacity() > SHOWN.max(2 * length) {
            self.bytes.shrink_to(length);
        }
    }

    /// Returns the memory of the beginning, in bytes, or 0 if it is [small](KEPT).
    fn footprint(&self) -> usize {
        let bytes = self.bytes.capacity();
        if bytes > KEPT { bytes } else { 0 }
    }

    /// The beginning of the message, as far as a dead letter shows it.
    pub(super) fn shown(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(SHOWN)]
    }

    /// Adds a piece that does not end the message.
    pub(super) fn extend(&mut self, piece: &[u8], held: &Held) {
        if let Some((length, _)) = &mut self.excess {
            *length += piece.len();
        } else if self.bytes.len() + piece.len() > held.limit {
            let length = self.bytes.len() + piece.len();
            let missing = SHOWN.saturating_sub(self.bytes.len()).min(piece.len());
            self.bytes.extend_from_slice(&piece[..missing]);
            self.give_up(SHOWN, TooLong::Alone);
            self.excess = Some((length, TooLong::Alone));
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Keeps `shown` bytes at most.
    fn give_up(&mut self, shown: usize, why: TooLong) {
        self.excess.get_or_insert((self.bytes.len(), why));
        self.bytes.truncate(shown);
        self.bytes.shrink_to(shown);
    }

    /// Takes back a carriage return that came just before the line feed, in an earlier piece.
    pub(super) fn strip_carriage_return(&mut self) {
        if self.excess.is_none() && self.bytes.ends_with(b"\r") {
            self.bytes.pop();
        }
    }

    /// Removes a UTF-8 signature from the beginning of a message that ends with `piece`. Returns the number of bytes of
    /// `piece` that belonged to it.
    pub(super) fn strip_signature(&mut self, piece: &[u8]) -> usize {
        const SIGNATURE: &[u8] = b"\xef\xbb\xbf";
        let held = self.bytes.len().min(SIGNATURE.len());
        let (before, here) = SIGNATURE.split_at(held);
        if self.excess.is_some() || !self.bytes.starts_with(before) || !piece.starts_with(here) {
            return 0;
        }
        self.bytes.drain(..held);
        here.len()
    }

    /// The stream has ended: what has begun is complete, or was cut off.
    pub(super) fn end(&mut self, cutter: &mut Cutter<'_>, held: &Held) {
        if self.is_empty() {
            return;
        }
        if !cutter.event().is_stream_aborted() {
            return self.complete(cutter, 0..0, held);
        }
        let error = cut_off(self.excess.map_or(self.bytes.len(), |(length, _)| length));
        cutter.reject(self.shown(), error);
        *self = Self::default();
    }

    /// Emits the message, which ends with a range of the payload that is being cut.
    pub(super) fn complete(
        &mut self,
        cutter: &mut Cutter<'_>,
        range: std::ops::Range<usize>,
        held: &Held,
    ) {
        if self.excess.is_some() || self.bytes.len() + range.len() > held.limit {
            self.extend(&cutter.payload()[range], held);
            let (length, why) = self.excess.unwrap_or((self.bytes.len(), TooLong::Alone));
            cutter.reject(&self.bytes, why.error(length, held));
            *self = Self::default();
        } else if self.bytes.is_empty() {
            cutter.emit(range);
        } else {
            cutter.emit_joined(&self.bytes, range);
            self.bytes.clear();
        }
    }
}

/// Of a message whose stream was cut off, `length` bytes are there.
fn cut_off(length: usize) -> Error {
    Error::connection_lost(format_args!(
        "the stream was cut off within a message, of which {length} bytes have come"
    ))
}

impl TooLong {
    fn error(self, length: usize, held: &Held) -> Error {
        let Held { limit, name, .. } = held;
        match self {
            Self::Alone => Error::bad_data(format_args!(
                "a message of {length} bytes is longer than `max_length` of `{name}`, {limit} bytes; \
                 shown are its first {SHOWN}"
            )),
            Self::Together => Error::bad_data(format_args!(
                "a message of {length} bytes came while the beginnings of messages of all streams took \
                 the most that they may, {} bytes; shown are its first {KEPT}: raise `max_length` of \
                 `{name}` if they may take more",
                (*limit).max(HELD)
            )),
            Self::ForMemory => Error::bad_data(format_args!(
                "cannot complete a message of {length} bytes: its beginning was discarded, because the flow \
                 had reached its memory limit and no stream of `{name}` held more; raise `--memory-limit`, or \
                 limit the number of connections. Shown are its first {KEPT} bytes"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use tremor_pdk::testing::TestHost;

    use super::{Held, KEPT, Partial, SHOWN, States, TooLong};

    /// Puts the beginnings of messages of these lengths aside, in this order. Returns the streams whose messages
    /// were discarded.
    fn discarded(held: &mut Held, lengths: &[usize]) -> Vec<u64> {
        let mut states = States::default();
        for (stream, length) in iter::zip(0.., lengths) {
            let mut partial = Partial::default();
            partial.extend(&vec![b'x'; *length], held);
            held.put(&mut partial, &mut states, |other| Some(other));
            states.insert(stream, partial);
        }
        let held_by: usize = states.values().map(Partial::footprint).sum();
        assert_eq!(held.bytes, held_by);
        let discarded = states.iter().filter(|(_, partial)| partial.excess.is_some());
        let mut discarded: Vec<u64> = discarded.map(|(stream, _)| *stream).collect();
        states.values().for_each(|partial| held.take(partial));
        assert_eq!((held.bytes, held.streams), (0, 0));
        discarded.sort_unstable();
        discarded
    }

    #[test]
    fn buffer_of_a_long_message_is_freed_before_the_next_waits() {
        let mut held = Held::new("lines", 4 << 20, None);
        let mut partial = Partial::default();
        partial.extend(&vec![b'x'; 4 << 20], &held);
        // The message is complete, and the next one has begun.
        partial.bytes.clear();
        partial.extend(&[b'y'; 100], &held);
        held.put(&mut partial, &mut States::default(), |other| Some(other));
        assert!(partial.bytes.capacity() <= SHOWN, "{}", partial.bytes.capacity());
        assert_eq!(held.bytes, partial.bytes.capacity(), "the buffer counts, and not its contents");
        held.take(&partial);
        assert_eq!(held.bytes, 0);
    }

    #[test]
    fn stream_that_holds_most_loses_its_message_for_memory() {
        let host = TestHost::new();
        host.set_memory_limit(1 << 20);
        let mut held = Held::new("lines", 4 << 20, host.host().memory());
        let kib = |sizes: &[usize]| sizes.iter().map(|it| it << 10).collect::<Vec<_>>();
        assert_eq!(discarded(&mut held, &kib(&[300, 600, 100, 200])), [1]);
        assert_eq!(discarded(&mut held, &kib(&[400, 400, 400, 200])), [2]);
        assert_eq!(discarded(&mut held, &kib(&[100, 1_000, 100])), [1]);
        assert_eq!(discarded(&mut held, &kib(&[1_000, 2_000, 3_000])), [1, 2]);
        assert_eq!(discarded(&mut held, &[&[1 << 20][..], &[KEPT; 100]].concat()), [0; 0]);
        assert!(host.memory() <= 64 << 10, "a block is kept");
    }

    #[test]
    fn only_stream_keeps_its_message_without_memory() {
        let host = TestHost::new();
        host.set_memory_limit(0);
        let mut held = Held::new("lines", 4 << 20, host.host().memory());
        assert_eq!(discarded(&mut held, &[4 << 20]), [0; 0]);
        assert_eq!(discarded(&mut held, &[4 << 20, 1 << 20, 100]), [0, 1]);
    }

    #[test]
    fn message_without_memory_is_rejected_with_the_remedy() {
        let error =
            TooLong::ForMemory.error(70_000, &Held::new("lines", 4 << 20, None)).to_string();
        assert!(error.contains("cannot complete a message of 70000 bytes"), "{error}");
        assert!(error.contains("memory limit") && error.contains("`--memory-limit`"), "{error}");
    }
}
