//! Preprocessors that find messages in the bytes of each stream.

mod buffers;
mod limits;
mod stream;
#[cfg(all(test, feature = "testing", unix))]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasherDefault, Hasher},
    ops::{Deref, Range},
    time::Duration,
};

use tremor_abi::batch::{Cutter, HostBatch, RemainingInput};

use self::{
    buffers::Buffers,
    limits::Limits,
    stream::{Ending, Stream},
};
use crate::{Batch, Component, ComponentContext, Error, Host, Output, Preprocessor, Result};

/// Finds messages in the bytes of a stream. Implement this trait for a preprocessor that splits each stream into
/// messages.
///
/// Implement [`Component`] and this trait, and export the type with `splitters: [...]`. The kit stores the state of
/// each stream and the bytes of its unfinished message, and limits both. The kit also handles the ends of streams, and
/// calls [`next`](StreamSplitter::next) again after a stream was silent for the [`timeout`](StreamSplitter::timeout). A
/// message whose bytes arrive in one fragment is not copied.
///
/// ```
/// use tremor_pdk::{NoConfig, prelude::*};
///
/// /// Records that end with a semicolon.
/// pub struct Records;
///
/// impl Component for Records {
///     const NAME: &str = "records";
///     type Config = NoConfig;
///
///     fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
///         Ok(Self)
///     }
/// }
///
/// impl StreamSplitter for Records {
///     type State = ();
///
///     fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
///         Ok(match input.find(b';') {
///             Some(end) => Found::message(0..end, end + 1),
///             None if input.is_end() => Found::message(0..input.len(), input.len()),
///             None => Found::More,
///         })
///     }
/// }
///
/// tremor_pdk::export! { splitters: [Records] }
/// # fn main() {}
/// ```
pub trait StreamSplitter: Send + 'static {
    /// State of one stream, in addition to the bytes of its unfinished message.
    type State: Default + Send;

    /// Treatment of input that consists of whole messages, for example datagrams, or the lines that an earlier
    /// preprocessor emits.
    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Split;

    /// `true` if the splitter passes the ends of streams on to the next preprocessor.
    #[doc(hidden)]
    const PASSES_ENDS: bool = true;

    /// Returns the item at the beginning of `input`, such as a message.
    ///
    /// `input` contains all bytes of the stream after the last message, and is not empty. The method is called again
    /// for the bytes after each message, and with more bytes after [`Found::More`].
    ///
    /// # Errors
    /// Return an error if the remainder of the stream cannot be split into messages. The first bytes of `input` go to
    /// `err` with this error, and all later bytes of the stream are counted and skipped. If only one message is invalid
    /// and its end is known, return [`Found::Reject`] instead.
    fn next(&mut self, state: &mut Self::State, input: Input<'_>) -> Result<Found>;

    /// Returns the maximum length of a message, in bytes; 4 MiB by default. Longer messages go to `err`. Called once.
    fn max_length(&self) -> usize {
        4 << 20
    }

    /// Returns the maximum time that the kit waits for the remainder of a message, without new bytes of the stream;
    /// `None` for no limit. Called once.
    ///
    /// After that time, the kit calls [`next`](StreamSplitter::next) with an input whose [`Input::is_end`] returns
    /// `true`, so that the last message is emitted even if the stream does not continue.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// Treatment of whole messages by a [`StreamSplitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeMessages {
    /// Each message is split as if it were a complete stream.
    Split,
    /// Messages are passed on unchanged.
    Pass,
    /// Messages are joined to a stream, each followed by these bytes. For example, a splitter that joins lines follows
    /// the preprocessor `lines` and uses `Join(b"\n")`.
    Join(&'static [u8]),
}

/// Bytes of a stream after its last message. Dereferences to the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Input<'b> {
    bytes: &'b [u8],
    seen: usize,
    ending: Ending,
    is_truncated: bool,
}

impl<'b> Input<'b> {
    /// Returns the bytes of the input.
    pub fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Returns the number of bytes that the previous call, which returned [`Found::More`], already got.
    ///
    /// Start a search at this position. A search that starts at 0 in each call takes quadratic time for a message that
    /// arrives in many fragments.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Returns the position of the first `byte` at or after the position [`seen`](Self::seen).
    #[inline]
    pub fn find(&self, byte: u8) -> Option<usize> {
        self.find_from(self.seen, byte)
    }

    /// Returns the position of the first `byte` at or after `start`.
    #[inline]
    pub fn find_from(&self, start: usize, byte: u8) -> Option<usize> {
        const CHUNK: usize = 64;
        let chunks = self.bytes.get(start..)?.chunks(CHUNK).enumerate();
        // `contains` compares whole words, and `position` single bytes, so `contains` finds the chunk.
        let mut found = chunks.filter(|(_, chunk)| chunk.contains(&byte));
        let (number, chunk) = found.next()?;
        Some(start + number * CHUNK + chunk.iter().position(|other| *other == byte)?)
    }

    /// Returns `true` if no more bytes will follow, because the stream has ended or was silent for the
    /// [`timeout`](StreamSplitter::timeout). If the remaining bytes are a complete message, return them.
    #[inline]
    pub fn is_end(&self) -> bool {
        self.ending != Ending::Open
    }

    /// Returns `true` if the stream has ended. Bytes that remain after this call go to `err`.
    #[inline]
    pub fn is_stream_end(&self) -> bool {
        self.ending == Ending::Stream
    }

    /// Returns `true` if the beginning of the message was discarded, because the message is longer than
    /// [`max_length`](StreamSplitter::max_length) or a memory limit was reached. The message goes to `err` in any case,
    /// so only its end has to be found.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }
}

impl Deref for Input<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

/// Result of [`StreamSplitter::next`]: the item at the beginning of an input.
#[derive(Clone, Debug)]
pub enum Found {
    /// A message.
    ///
    /// `range` and `len` may exceed the input if the length is known in advance. The message is then emitted once all
    /// its bytes have been read.
    Message {
        /// Range of the message within the input, without separators or headers.
        range: Range<usize>,
        /// Number of bytes from the beginning of the input to the next message, separators included. At least 1.
        len: usize,
    },
    /// Bytes that do not belong to a message. The given number of bytes, at least one, is discarded.
    Skip(usize),
    /// A message that goes to `err`. The stream continues after the message.
    Reject {
        /// Number of bytes of the message: at least one, and at most the length of the input.
        len: usize,
        /// The reason for the rejection.
        error: Error,
    },
    /// The end of the message is not in the input: the next call gets more bytes.
    More,
}

impl Found {
    /// Creates a [`Found::Message`].
    #[inline]
    pub fn message(range: Range<usize>, len: usize) -> Self {
        Self::Message { range, len }
    }
}

/// The preprocessor into which the kit wraps a [`StreamSplitter`].
pub struct Splitter<T: StreamSplitter> {
    streams: Streams<T>,
    /// Input of earlier batches that is not split yet.
    remaining: RemainingInput,
}

type States<S> = HashMap<u64, Stream<S>, BuildHasherDefault<StreamHasher>>;

/// The streams of a splitter.
struct Streams<T: StreamSplitter> {
    splitter: T,
    states: States<T::State>,
    buffers: Buffers,
    /// Timeout in ns, and the host whose clock measures it.
    timeout: Option<(u64, Host)>,
    /// Deadlines in ns, each with its stream. The actual deadline of a stream may be later than its deadline in this
    /// set, which is checked when the deadline in the set is reached.
    deadlines: BTreeSet<(u64, u64)>,
}

impl<T: StreamSplitter + Component> Component for Splitter<T> {
    const NAME: &str = T::NAME;
    const DESCRIPTION: &str = T::DESCRIPTION;
    type Config = T::Config;

    fn new(config: T::Config, context: ComponentContext) -> Result<Self> {
        Ok(Self::of(T::new(config, context.clone())?, T::NAME, context))
    }
}

impl<T: StreamSplitter> Splitter<T> {
    /// Creates the preprocessor of `splitter`. `name` is the name in flow files, for error messages. Use this function
    /// in a preprocessor that splits streams and then processes the messages further.
    pub fn of(splitter: T, name: &'static str, context: ComponentContext) -> Self {
        let buffers = Buffers::new(Limits { name, bytes: splitter.max_length() }, context.memory());
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let timeout = splitter.timeout().map(|time| (nanoseconds(time), context.into()));
        let (states, deadlines) = (States::default(), BTreeSet::new());
        let streams = Streams { splitter, states, buffers, timeout, deadlines };
        Self { streams, remaining: RemainingInput::default() }
    }

    fn passes(batch: &Batch) -> bool {
        T::WHOLE_MESSAGES == WholeMessages::Pass
            && batch.events().iter().all(|event| !event.is_fragment() && !event.is_stream_end())
    }
}

impl<T: StreamSplitter> Preprocessor for Splitter<T> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let Self { streams, remaining } = self;
        if remaining.is_empty() && Self::passes(batch) {
            return Ok(());
        }
        let due = streams.next_due();
        output.reject_all(remaining.cut(batch, |cutter| streams.split(cutter, due)));
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.remaining.is_empty()
    }

    fn due(&self) -> Option<u64> {
        self.streams.deadlines.first().map(|(due, _)| *due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.streams.take_silent(now, batch);
        self.process(batch, output)
    }

    fn buffers(&self, stream: u64) -> bool {
        self.streams.states.get(&stream).is_some_and(Stream::is_unfinished)
            || self.remaining.contains(stream)
    }

    fn streams(&self) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.streams.states.keys().copied().chain(self.remaining.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl<T: StreamSplitter> Streams<T> {
    /// Returns the deadline in ns of a stream that gets input now, or 0 without a timeout.
    fn next_due(&self) -> u64 {
        let due = |(timeout, host): &(u64, Host)| host.monotonic_ns().saturating_add(*timeout);
        self.timeout.as_ref().map_or(0, due)
    }

    /// Splits the payload of one event.
    fn split(&mut self, cutter: &mut Cutter<'_>, due: u64) {
        let Self { splitter, states, buffers, timeout, deadlines } = self;
        let event = cutter.event();
        let (id, is_end) = (event.stream, event.is_stream_end());
        let is_whole = !is_end && !event.is_fragment();
        if is_whole && T::WHOLE_MESSAGES == WholeMessages::Pass {
            return cutter.pass();
        }
        let mut stream = states.remove(&id).unwrap_or_default();
        buffers.take(&mut stream);
        let (is_aborted, is_of_runtime) =
            (event.is_stream_aborted(), is_end && cutter.is_of_no_origin());
        if let Some(origin) = stream.origin.as_ref().filter(|_| is_of_runtime) {
            cutter.apply_origin(origin);
        }
        if is_aborted {
            stream.abort(cutter);
            return pass_end::<T>(cutter);
        }
        let has_input = !cutter.payload().is_empty();
        let (ending, separator) = match T::WHOLE_MESSAGES {
            _ if is_end => (Ending::Stream, &[][..]),
            WholeMessages::Join(separator) if is_whole => (Ending::Open, separator),
            _ if is_whole => (Ending::Stream, &[][..]),
            _ if stream.is_silent() => (Ending::Silence, &[][..]),
            _ => (Ending::Open, &[][..]),
        };
        let left = if separator.is_empty() {
            stream.split(splitter, cutter, ending, &buffers.limits)
        } else {
            stream.join(splitter, cutter, separator, &buffers.limits)
        };
        match left {
            Some(left) => cutter.leave(left),
            None if is_end => return pass_end::<T>(cutter),
            None if ending == Ending::Stream => return,
            None if ending == Ending::Silence => stream.set_silent(false),
            None if timeout.is_some()
                && (has_input || !separator.is_empty())
                && stream.set_due(due) =>
            {
                deadlines.insert((due, id));
            }
            None => {}
        }
        if stream.origin.is_none() && stream.is_unfinished() {
            stream.origin = cutter.origin().map(Box::new);
        }
        buffers.put(&mut stream, states);
        if left.is_some() || stream.is_kept() {
            states.insert(id, stream);
        }
    }

    /// Moves the buffered bytes of all streams that are due at `now` to `batch`, as fragments.
    fn take_silent(&mut self, now: u64, batch: &mut Batch) {
        let Self { states, buffers, deadlines, .. } = self;
        while let Some(first) = deadlines.first().copied().filter(|(due, _)| *due <= now) {
            if batch.is_heavy() {
                return;
            }
            deadlines.remove(&first);
            let (_, id) = first;
            let Some(stream) = states.get_mut(&id) else { continue };
            if stream.due() > now {
                deadlines.insert((stream.due(), id));
                continue;
            }
            stream.set_silent(stream.is_unfinished());
            if stream.is_unfinished() {
                buffers.take(stream);
                let position = batch.len();
                batch.stream(id).push_fragment(&stream.take_buffered());
                if let Some(origin) = &stream.origin {
                    batch.apply_origin(position, origin);
                }
                buffers.add(stream);
            } else if !stream.is_kept() {
                states.remove(&id);
            }
        }
    }
}

fn pass_end<T: StreamSplitter>(cutter: &mut Cutter<'_>) {
    if T::PASSES_ENDS {
        cutter.pass();
    }
}

/// A hasher of numbers of streams. The plugin chooses these numbers, and peers cannot, so the hash does not have to
/// resist attacks.
#[derive(Default)]
struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The hash table uses the highest and the lowest bits, so both must depend on the number.
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
