//! The state of one stream of a splitter, with the bytes of its unfinished message.

use std::ops::Range;

use tremor_abi::batch::{Cutter, Origin};

use super::{
    Found, Input, StreamSplitter,
    limits::{Limits, SHOWN, TooLong},
};
use crate::Error;

/// Maximum number of bytes by which a message of the maximum length may grow through its separator and prefix.
///
/// The last `WINDOW` bytes of a message that is too long are kept, so that the end of the message is found even if its
/// separator arrives in two fragments.
const WINDOW: usize = 64;
/// Minimum number of bytes of a new fragment that are added at a time to an unfinished message to find its end.
const FIRST_CHUNK: usize = 512;
/// Maximum number of bytes that are added at a time to find the end of a message that is too long.
const EXCESS_CHUNK: usize = 64 << 10;

/// The state of a stream at the end of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// More bytes may follow.
    Open,
    /// The stream was silent for the timeout.
    Silence,
    /// The stream has ended.
    Stream,
}

/// State of one stream.
#[derive(Default)]
pub(super) struct Stream<S> {
    state: S,
    /// Bytes after the last message; for a message that is too long, only its last bytes.
    pub(super) buffered: Vec<u8>,
    /// Origin and metadata of the stream, from an event that left buffered bytes. Used when the stream is silent, and
    /// when the runtime ends the stream, because the kit or the runtime creates the events of these calls without an
    /// origin.
    pub(super) origin: Option<Box<Origin>>,
    /// Number of buffered bytes in which the splitter found no end of a message.
    seen: usize,
    /// Range of a message and number of bytes to the next message, for a message whose remaining bytes were not
    /// received yet.
    pending: Option<(Range<usize>, usize)>,
    pub(super) excess: Option<Box<Excess>>,
    /// Bytes that [`Buffers`](super::buffers::Buffers) counts for this stream.
    pub(super) counted: usize,
    /// Number of bytes that were skipped since the splitter returned an error for the stream; `None` if it returned no
    /// error.
    lost: Option<u64>,
    /// Deadline in ns at which the stream counts as silent, unless it receives data before.
    due: u64,
    /// `true` while the deadlines have an entry for the stream.
    is_queued: bool,
    /// `true` if the stream was silent for the timeout, and its buffered bytes are about to be split again.
    is_silent: bool,
    /// `true` while the buffered bytes contain the message that is being joined.
    is_joined: bool,
}

/// A message that is longer than the maximum.
pub(super) struct Excess {
    why: TooLong,
    /// Number of bytes of the message that precede the buffered bytes.
    length: usize,
    /// The first bytes of the message, at most `shown_bytes`.
    pub(super) shown: Vec<u8>,
    shown_bytes: usize,
}

/// The result of [`StreamSplitter::next`] after its numbers were checked.
enum Step {
    Message { range: Range<usize>, len: usize },
    Skip(usize),
    Reject { len: usize, error: Error },
    More,
    Lost(Error),
}

impl<S> Stream<S> {
    /// Returns whether bytes of an unfinished message are buffered.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.buffered.is_empty() || self.excess.is_some()
    }

    /// Returns whether the stream has state that must be kept until the next input.
    pub(super) fn is_kept(&self) -> bool {
        size_of::<S>() > 0 || self.is_unfinished() || self.lost.is_some() || self.is_queued
    }

    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Sets the deadline of the stream in ns. Returns `true` if the caller must add the stream to the set of deadlines.
    pub(super) fn set_due(&mut self, due: u64) -> bool {
        self.due = due;
        self.is_unfinished() && !std::mem::replace(&mut self.is_queued, true)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Sets whether the stream was silent for the timeout. The caller has removed the stream from the deadlines.
    pub(super) fn set_silent(&mut self, is_silent: bool) {
        (self.is_silent, self.is_queued) = (is_silent, false);
    }

    pub(super) fn take_buffered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffered)
    }

    /// Splits the payload of `cutter`. Stops when the batch is heavy, and then returns the position in the payload at
    /// which the next batch has to continue. Returns `None` if the payload was split completely.
    #[inline]
    pub(super) fn split<T: StreamSplitter<State = S>>(
        &mut self,
        splitter: &mut T,
        cutter: &mut Cutter<'_>,
        ending: Ending,
        limits: &Limits,
    ) -> Option<usize> {
        let mut at = 0;
        if self.is_unfinished() || self.lost.is_some() {
            cutter.forget_position();
            at = self.continue_message(splitter, cutter, ending, limits);
            if cutter.is_heavy() {
                return Some(at);
            }
        }
        loop {
            let bytes = &cutter.payload()[at..];
            if bytes.is_empty() || self.is_unfinished() || self.lost.is_some() {
                break;
            }
            match self.find(splitter, bytes, ending) {
                Step::Message { range, len } => {
                    let range = at + range.start..at + range.end;
                    if range.len() > limits.bytes {
                        let error = TooLong::Alone.error(range.len(), limits);
                        reject(cutter, range, error);
                    } else {
                        cutter.emit(range);
                    }
                    at += len;
                }
                Step::Skip(len) => at += len,
                Step::Reject { len, error } => {
                    reject(cutter, at..at + len, error);
                    at += len;
                }
                Step::More => {
                    self.buffered.extend_from_slice(bytes);
                    at += bytes.len();
                    self.limit(limits);
                }
                Step::Lost(error) => {
                    let end = at + bytes.len();
                    self.lose(bytes.len(), ending);
                    reject(cutter, at..end, error);
                    break;
                }
            }
            if cutter.is_heavy() {
                return Some(at);
            }
        }
        if ending == Ending::Stream {
            self.finish(cutter, limits);
        }
        None
    }

    /// Adds the payload of `cutter`, a whole message, and `separator` to the stream. Stops when the batch is heavy, and
    /// then returns the length of the payload, because all of it is buffered. Otherwise returns `None`.
    pub(super) fn join<T: StreamSplitter<State = S>>(
        &mut self,
        splitter: &mut T,
        cutter: &mut Cutter<'_>,
        separator: &[u8],
        limits: &Limits,
    ) -> Option<usize> {
        if let Some(lost) = &mut self.lost {
            *lost += (cutter.payload().len() + separator.len()) as u64;
            return None;
        }
        if !std::mem::replace(&mut self.is_joined, true) {
            self.buffered.extend_from_slice(cutter.payload());
            self.buffered.extend_from_slice(separator);
        }
        // The messages that end here were buffered before.
        cutter.forget_position();
        self.scan(splitter, cutter, &mut 0, 0, Ending::Open, limits);
        self.is_joined = cutter.is_heavy();
        self.is_joined.then_some(cutter.payload().len())
    }

    /// Adds bytes of the payload to the unfinished message until the message is complete. Returns the number of bytes
    /// that were used.
    fn continue_message<T: StreamSplitter<State = S>>(
        &mut self,
        splitter: &mut T,
        cutter: &mut Cutter<'_>,
        ending: Ending,
        limits: &Limits,
    ) -> usize {
        let end = cutter.payload().len();
        if let Some(lost) = &mut self.lost {
            *lost += end as u64;
            return end;
        }
        let mut at = 0;
        self.scan(splitter, cutter, &mut at, end, ending, limits);
        at
    }

    /// Finds messages in the buffered bytes, after adding as many bytes of the payload from `at` to `end` as needed.
    fn scan<T: StreamSplitter<State = S>>(
        &mut self,
        splitter: &mut T,
        cutter: &mut Cutter<'_>,
        at: &mut usize,
        end: usize,
        ending: Ending,
        limits: &Limits,
    ) {
        let mut start = 0;
        while start < self.buffered.len() || self.excess.is_some() {
            let is_all = *at == end;
            let buffered = std::mem::take(&mut self.buffered);
            let bytes = &buffered[start..];
            let step = self.find(splitter, bytes, if is_all { ending } else { Ending::Open });
            let len = match step {
                Step::Message { range, len } => {
                    let data = &bytes[range.start..len.min(range.end + WINDOW)];
                    self.emit(cutter, data, range.len(), limits);
                    len
                }
                Step::Skip(len) => len,
                Step::Reject { len, error } => {
                    self.reject(cutter, &bytes[..len], error, limits);
                    len
                }
                Step::More => {
                    self.buffered = buffered;
                    self.buffered.drain(..std::mem::take(&mut start));
                    self.limit(limits);
                    if is_all {
                        return;
                    }
                    let chunk = self.chunk().min(end - *at);
                    self.buffered.extend_from_slice(&cutter.payload()[*at..*at + chunk]);
                    *at += chunk;
                    continue;
                }
                Step::Lost(error) => {
                    self.lose(bytes.len() + end - *at, if is_all { ending } else { Ending::Open });
                    cutter.reject(bytes, error);
                    *at = end;
                    return;
                }
            };
            self.buffered = buffered;
            self.excess = None;
            start += len;
            let left = self.buffered.len() - start;
            // The remaining bytes are part of the payload, so they need not be buffered.
            if left <= *at {
                *at -= left;
                self.buffered.clear();
                return;
            }
            if cutter.is_heavy() {
                break;
            }
        }
        self.buffered.drain(..start);
    }

    /// Stops splitting the stream, whose remaining `bytes` bytes are rejected.
    #[cold]
    fn lose(&mut self, bytes: usize, ending: Ending) {
        // If the stream has ended, the error that the caller reports covers these bytes.
        self.lost = Some(if ending == Ending::Stream { 0 } else { bytes as u64 });
        self.excess = None;
    }

    /// Emits a message that ends with the first `len` bytes of `data`, or rejects the message if it is too long. The rest
    /// of `data` follows the message in the stream.
    fn emit(&mut self, cutter: &mut Cutter<'_>, data: &[u8], len: usize, limits: &Limits) {
        let bytes = &data[..len];
        if let Some(excess) = &mut self.excess {
            excess.add(bytes);
            cutter.reject(&excess.shown, excess.why.error(excess.length, limits));
        } else if bytes.len() > limits.bytes {
            cutter.reject(bytes, TooLong::Alone.error(bytes.len(), limits));
        } else {
            cutter.emit_with_end(data, len);
        }
    }

    /// Rejects a message that ends with `bytes`. If the message is too long, the error also contains its length, and the
    /// dead letter shows its beginning.
    fn reject(&mut self, cutter: &mut Cutter<'_>, bytes: &[u8], error: Error, limits: &Limits) {
        if let Some(excess) = &mut self.excess {
            excess.add(bytes);
            let too_long = excess.why.error(excess.length, limits);
            cutter.reject(&excess.shown, error.context(too_long.message()));
        } else {
            cutter.reject(bytes, error);
        }
    }

    /// Returns the number of bytes to add to an unfinished message.
    fn chunk(&self) -> usize {
        let bytes = self.buffered.len();
        let chunk = match &self.pending {
            Some((_, len)) => len.saturating_sub(bytes).max(1),
            None => bytes.max(FIRST_CHUNK),
        };
        if self.excess.is_some() { chunk.min(EXCESS_CHUNK) } else { chunk }
    }

    #[inline]
    fn find<T: StreamSplitter<State = S>>(
        &mut self,
        splitter: &mut T,
        bytes: &[u8],
        ending: Ending,
    ) -> Step {
        if let Some((_, len)) = &self.pending {
            if bytes.len() < *len {
                return Step::More;
            }
            self.seen = 0;
            let (range, len) = self.pending.take().unwrap_or_default();
            return Step::Message { range, len };
        }
        if bytes.is_empty() || (bytes.len() == self.seen && ending == Ending::Open) {
            return Step::More;
        }
        let is_truncated = self.excess.is_some();
        let input = Input { bytes, seen: self.seen, ending, is_truncated };
        self.seen = 0;
        match splitter.next(&mut self.state, input) {
            Ok(Found::Message { range, len })
                if range.start <= range.end && range.end <= len && len > 0 =>
            {
                if len <= bytes.len() {
                    return Step::Message { range, len };
                }
                self.pending = Some((range, len));
                Step::More
            }
            Ok(Found::Skip(len)) if (1..=bytes.len()).contains(&len) => Step::Skip(len),
            Ok(Found::Reject { len, error }) if (1..=bytes.len()).contains(&len) => {
                Step::Reject { len, error }
            }
            Ok(Found::More) => {
                self.seen = bytes.len();
                Step::More
            }
            Ok(found) => Step::Lost(impossible(&found, bytes.len())),
            Err(error) => Step::Lost(error),
        }
    }

    /// Discards the bytes of an unfinished message that is too long, except for the first and the last bytes.
    fn limit(&mut self, limits: &Limits) {
        let length = match &self.pending {
            Some((range, len)) => range.len().max(len.saturating_sub(WINDOW)),
            None => self.buffered.len().saturating_sub(WINDOW),
        };
        if self.excess.is_none() && length > limits.bytes {
            self.exceed(TooLong::Alone, SHOWN);
        }
        self.trim();
    }

    /// Discards the bytes of an unfinished message, except for the first `shown_bytes` and the last [`WINDOW`] bytes.
    pub(super) fn exceed(&mut self, why: TooLong, shown_bytes: usize) {
        let excess = Excess { why, length: 0, shown: Vec::new(), shown_bytes };
        let excess = self.excess.get_or_insert_with(|| Box::new(excess));
        excess.shown_bytes = excess.shown_bytes.min(shown_bytes);
        excess.shown.truncate(shown_bytes);
        excess.shown.shrink_to(shown_bytes);
        self.trim();
        self.buffered.shrink_to(WINDOW);
    }

    /// Removes all but the last [`WINDOW`] bytes of a message that is too long from the buffer, and adds the removed
    /// bytes to the [`Excess`].
    fn trim(&mut self) {
        let Some(excess) = &mut self.excess else { return };
        let count = self.buffered.len().saturating_sub(WINDOW);
        let mut prefix = 0;
        if let Some((range, len)) = &mut self.pending {
            prefix = range.start.min(count);
            *range = range.start - prefix..range.end.saturating_sub(count);
            *len = len.saturating_sub(count);
        }
        excess.add(&self.buffered[prefix..count]);
        self.buffered.drain(..count);
        self.seen = self.seen.saturating_sub(count);
    }

    /// Rejects the remaining bytes of a stream that has ended.
    fn finish(&mut self, cutter: &mut Cutter<'_>, limits: &Limits) {
        let have = self.length();
        let error = match (&self.lost, &self.pending, &self.excess) {
            (Some(0), ..) => return,
            (Some(bytes), ..) => Error::bad_data(format_args!(
                "{bytes} bytes were not split into messages, because an earlier part of the stream could not be split"
            )),
            (None, Some((range, len)), excess) => Error::bad_data(format_args!(
                "the stream ended within a message: {have} of {} bytes were received",
                excess.as_ref().map_or(0, |excess| excess.length) + len.saturating_sub(range.start)
            )),
            (None, None, Some(excess)) => excess.why.error(have, limits),
            (None, None, None) if self.buffered.is_empty() => return,
            (None, None, None) => Error::bad_data(format_args!(
                "the stream ended within a message: {have} bytes of the message were received"
            )),
        };
        self.reject_remainder(cutter, error);
    }

    /// Rejects the remaining bytes of a stream that was cut off.
    pub(super) fn abort(&mut self, cutter: &mut Cutter<'_>) {
        if self.is_unfinished() || self.lost.is_some_and(|bytes| bytes > 0) {
            let bytes = self.lost.unwrap_or(self.length() as u64);
            let error = Error::connection_lost(format_args!(
                "the stream was cut off within a message: {bytes} bytes of the message were received"
            ));
            self.reject_remainder(cutter, error);
        }
    }

    fn reject_remainder(&mut self, cutter: &mut Cutter<'_>, error: Error) {
        let from = self.pending.as_ref().map_or(0, |(range, _)| range.start);
        let bytes = self.buffered.get(from..).unwrap_or_default();
        match &mut self.excess {
            Some(excess) => {
                excess.add(bytes);
                cutter.reject(&excess.shown, error);
            }
            None => cutter.reject(bytes, error),
        }
    }

    /// Returns the number of bytes of the unfinished message that were received.
    fn length(&self) -> usize {
        let prefix = self.pending.as_ref().map_or(0, |(range, _)| range.start);
        let before = self.excess.as_ref().map_or(0, |excess| excess.length);
        before + self.buffered.len().saturating_sub(prefix)
    }
}

impl Excess {
    fn add(&mut self, bytes: &[u8]) {
        let missing = self.shown_bytes.saturating_sub(self.shown.len()).min(bytes.len());
        self.shown.extend_from_slice(&bytes[..missing]);
        self.length += bytes.len();
    }
}

/// Rejects a range of the payload.
#[cold]
fn reject(cutter: &mut Cutter<'_>, range: Range<usize>, error: Error) {
    let shown = range.start..range.end.min(range.start + SHOWN);
    let shown = cutter.payload()[shown].to_vec();
    cutter.reject(&shown, error);
}

#[cold]
fn impossible(found: &Found, bytes: usize) -> Error {
    let answer = match found {
        Found::Reject { len, error } => format!("Reject {{ len: {len}, error: {error} }}"),
        found => format!("{found:?}"),
    };
    Error::internal(format_args!(
        "the splitter answered {answer} to {bytes} bytes of input: expected a length of at least 1, a range within \
         this length, and at most {bytes} bytes to skip or to reject; the remainder of the stream is not split"
    ))
}
