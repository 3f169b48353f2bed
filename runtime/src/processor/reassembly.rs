//! A message that is put together from pieces, up to a limit.

use std::collections::HashMap;

use tremor_pdk::{Error, abi::batch::Cutter};

/// How much of a message that is too long its dead letter shows. Bytes.
pub(super) const SHOWN: usize = 4 << 10;

/// The streams that a preprocessor keeps something of.
pub(super) fn streams<T>(streams: &HashMap<u64, T>) -> Vec<u64> {
    streams.keys().copied().collect()
}

/// The beginning of a message whose end has not come yet.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// The beginning, up to the limit; of a message that exceeds it, what will be shown.
    bytes: Vec<u8>,
    /// How long a message that exceeds the limit is so far; zero for others.
    excess: usize,
}

impl Partial {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.excess == 0
    }

    /// The beginning of the message, as far as a dead letter shows it.
    pub(super) fn shown(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(SHOWN)]
    }

    /// Adds a piece that does not end the message.
    pub(super) fn extend(&mut self, piece: &[u8], limit: usize) {
        if self.excess > 0 {
            self.excess += piece.len();
        } else if self.bytes.len() + piece.len() > limit {
            self.excess = self.bytes.len() + piece.len();
            let missing = SHOWN.saturating_sub(self.bytes.len()).min(piece.len());
            self.bytes.extend_from_slice(&piece[..missing]);
            self.bytes.truncate(SHOWN);
            self.bytes.shrink_to(SHOWN);
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Takes back a carriage return that came just before the line feed, in an earlier piece.
    pub(super) fn strip_carriage_return(&mut self) {
        if self.excess == 0 && self.bytes.ends_with(b"\r") {
            self.bytes.pop();
        }
    }

    /// The stream has ended: what has begun is complete, or was cut off.
    pub(super) fn end(&mut self, cutter: &mut Cutter<'_>, limit: usize) {
        if self.is_empty() {
            return;
        }
        if !cutter.event().is_stream_aborted() {
            return self.complete(cutter, 0..0, limit);
        }
        let error = cut_off(self.bytes.len().max(self.excess));
        cutter.reject(self.shown(), error);
        *self = Self::default();
    }

    /// Emits the message, which ends with a range of the payload that is being cut.
    pub(super) fn complete(
        &mut self,
        cutter: &mut Cutter<'_>,
        range: std::ops::Range<usize>,
        limit: usize,
    ) {
        if self.excess > 0 || self.bytes.len() + range.len() > limit {
            self.extend(&cutter.payload()[range], limit);
            let error = too_long(self.excess, limit);
            cutter.reject(&self.bytes, error);
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

fn too_long(length: usize, limit: usize) -> Error {
    Error::bad_data(format_args!(
        "a message of {length} bytes is longer than `max_length`, {limit} bytes; \
         shown are its first {SHOWN}"
    ))
}
