//! Messages that are put together from pieces, up to a limit.

use tremor_pdk::{
    Error,
    abi::batch::{Cutter, Rejected},
};

/// The longest message that is taken unless a flow says otherwise, in bytes: decoded, it may have
/// what any event may have.
const MAX_LENGTH: usize = 4 << 20;

pub(super) const fn max_length() -> usize {
    MAX_LENGTH
}

/// How much of a message that is too long its dead letter shows. Bytes.
const SHOWN: usize = Rejected::SHOWN;

/// What the beginnings of messages of all streams may take together, in bytes, where one alone may
/// not take more.
const HELD: usize = 8 * MAX_LENGTH;

/// How much one preprocessor holds of all streams.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    /// The longest message.
    limit: usize,
    /// What flows call the preprocessor.
    name: &'static str,
}

impl Held {
    pub(super) fn new(name: &'static str, limit: usize) -> Self {
        Self { bytes: 0, limit, name }
    }

    /// A beginning that is put aside until its stream goes on. Where there are too many, of this one
    /// no more is kept than will be shown.
    pub(super) fn put(&mut self, partial: &mut Partial) {
        partial.compact();
        if self.bytes + partial.footprint() > self.limit.max(HELD) {
            partial.give_up(TooLong::Together);
        }
        self.bytes += partial.footprint();
    }

    /// A beginning that was put aside is taken up again.
    pub(super) fn take(&mut self, partial: &Partial) {
        self.bytes -= partial.footprint();
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

    /// Returns the memory of the beginning, in bytes.
    fn footprint(&self) -> usize {
        self.bytes.capacity()
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
            self.give_up(TooLong::Alone);
            self.excess = Some((length, TooLong::Alone));
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Keeps no more than will be shown.
    fn give_up(&mut self, why: TooLong) {
        self.excess.get_or_insert((self.bytes.len(), why));
        self.bytes.truncate(SHOWN);
        self.bytes.shrink_to(SHOWN);
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
                 the most that they may, {} bytes; shown are its first {SHOWN}: raise `max_length` of \
                 `{name}` if they may take more",
                (*limit).max(HELD)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, Partial, SHOWN};

    #[test]
    fn buffer_of_a_long_message_is_freed_before_the_next_waits() {
        let mut held = Held::new("lines", 4 << 20);
        let mut partial = Partial::default();
        partial.extend(&vec![b'x'; 4 << 20], &held);
        // The message is complete, and the next one has begun.
        partial.bytes.clear();
        partial.extend(b"y", &held);
        held.put(&mut partial);
        assert!(partial.bytes.capacity() <= SHOWN, "{}", partial.bytes.capacity());
        assert_eq!(held.bytes, partial.bytes.capacity(), "the buffer counts, and not its contents");
        held.take(&partial);
        assert_eq!(held.bytes, 0);
    }
}
