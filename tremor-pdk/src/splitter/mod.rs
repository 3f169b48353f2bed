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

use tremor_abi::batch::{Cutter, HostBatch, Rest};

use self::{
    buffers::Buffers,
    limits::Limits,
    stream::{Ending, Stream},
};
use crate::{Batch, Component, ComponentContext, Error, Host, Output, Preprocessor, Result};

/// Finds messages in the bytes of a stream: the usual preprocessor.
///
/// Implement [`Component`] and this trait, and export the type with `splitters: [...]`. The kit keeps the state of each
/// stream and the bytes of its unfinished message, limits both, ends and aborts streams, and calls
/// [`next`](StreamSplitter::next) once a stream was silent for the [`timeout`](StreamSplitter::timeout). A
/// message that is complete within one fragment is not copied.
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

    /// Treatment of whole messages, for example datagrams, or lines from a preprocessor before this one.
    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Split;

    /// `true` if the ends of streams are passed on to the next preprocessor. After the last one nothing needs them.
    #[doc(hidden)]
    const PASSES_ENDS: bool = true;

    /// Returns what `input` begins with. `input` has all bytes of the stream after the last message, at least one.
    ///
    /// The method is called again for the bytes after each message, and with more bytes after [`Found::More`].
    ///
    /// # Errors
    /// The rest of the stream cannot be split, because the next message cannot be found any more. The first bytes of
    /// `input` go to `err` with this error, and all later bytes of the stream are counted and skipped. If only one
    /// message is bad and its end is known, return [`Found::Reject`] instead.
    fn next(&mut self, state: &mut Self::State, input: Input<'_>) -> Result<Found>;

    /// Returns the maximum length of a message, in bytes. Longer ones go to `err`. The kit asks once.
    fn max_length(&self) -> usize {
        4 << 20
    }

    /// Returns how long a stream may be silent within a message. After that, [`next`](StreamSplitter::next) is called
    /// with [`Input::is_end`], so that the last message does not wait for a stream that is not continued. `None`:
    /// without limit. The kit asks once.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// Treatment of whole messages by a [`StreamSplitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeMessages {
    /// Each message is split like a stream that ends with it.
    Split,
    /// Messages are passed on unchanged.
    Pass,
    /// Messages are joined to a stream again: each is followed by these bytes. So a splitter that joins lines can
    /// follow the preprocessor `lines`.
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
    /// Returns the bytes.
    pub fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Returns the number of bytes that the last call, which found no end of a message, had already. A search that
    /// starts there takes time in proportion to the stream; one that starts at 0 is quadratic in the length of a
    /// message that comes in many fragments.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Returns the position of the first `byte` that the last call did not have.
    #[inline]
    pub fn find(&self, byte: u8) -> Option<usize> {
        self.find_from(self.seen, byte)
    }

    /// Returns the position of the first `byte` at `start` or after it.
    #[inline]
    pub fn find_from(&self, start: usize, byte: u8) -> Option<usize> {
        const CHUNK: usize = 64;
        let chunks = self.bytes.get(start..)?.chunks(CHUNK).enumerate();
        // `contains` compares words, and `position` bytes.
        let mut found = chunks.filter(|(_, chunk)| chunk.contains(&byte));
        let (number, chunk) = found.next()?;
        Some(start + number * CHUNK + chunk.iter().position(|it| *it == byte)?)
    }

    /// Returns `true` if the bytes will not be continued: the stream has ended, or was silent for the
    /// [`timeout`](StreamSplitter::timeout). Bytes that are a message now are returned as one.
    #[inline]
    pub fn is_end(&self) -> bool {
        self.ending != Ending::Open
    }

    /// Returns `true` if the stream has ended. Bytes that are left after this call go to `err`.
    #[inline]
    pub fn is_stream_end(&self) -> bool {
        self.ending == Ending::Stream
    }

    /// Returns `true` if the beginning of the message was discarded, because the message is longer than
    /// [`max_length`](StreamSplitter::max_length). The message goes to `err` in any case, so that only its end matters.
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

/// Answer of [`StreamSplitter::next`]: what an input begins with.
#[derive(Clone, Debug)]
pub enum Found {
    /// A message: the bytes `range`. The next message begins after `len` bytes. Both may end after the input if the
    /// length is known in advance: the message is then emitted once all of it has been read.
    Message {
        /// The bytes of the message.
        range: Range<usize>,
        /// Number of bytes of the message with everything that separates it from the next one. Not 0.
        len: usize,
    },
    /// Bytes without a message, which are dropped: so many, at least one.
    Skip(usize),
    /// A message that goes to `err`. The stream continues after it.
    Reject {
        /// Number of bytes of the message, at least one, at most those of the input.
        len: usize,
        /// The cause.
        error: Error,
    },
    /// The beginning of a message whose end is not in the input.
    More,
}

impl Found {
    /// Returns [`Found::Message`].
    #[inline]
    pub fn message(range: Range<usize>, len: usize) -> Self {
        Self::Message { range, len }
    }
}

/// The preprocessor that a [`StreamSplitter`] is exported as.
pub struct Splitter<T: StreamSplitter> {
    streams: Streams<T>,
    /// Input that is not split yet.
    rest: Rest,
}

type States<S> = HashMap<u64, Stream<S>, BuildHasherDefault<StreamHasher>>;

/// The streams of a splitter.
struct Streams<T: StreamSplitter> {
    splitter: T,
    states: States<T::State>,
    buffers: Buffers,
    /// Nanoseconds of silence, and the clock for them.
    timeout: Option<(u64, Host)>,
    /// Times at which streams may be due, in ns, each with its stream. The stream's own time may be later, because it is
    /// compared only once the time here has come.
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
    /// Returns the preprocessor of `splitter`, which flow files call `name`. For a preprocessor that splits streams
    /// before it does something else with the messages.
    pub fn of(splitter: T, name: &'static str, context: ComponentContext) -> Self {
        let buffers = Buffers::new(Limits { name, bytes: splitter.max_length() }, context.memory());
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let timeout = splitter.timeout().map(|time| (nanoseconds(time), context.into()));
        let (states, deadlines) = (States::default(), BTreeSet::new());
        let streams = Streams { splitter, states, buffers, timeout, deadlines };
        Self { streams, rest: Rest::default() }
    }

    fn passes(batch: &Batch) -> bool {
        T::WHOLE_MESSAGES == WholeMessages::Pass
            && batch.events().iter().all(|event| !event.is_fragment() && !event.is_stream_end())
    }
}

impl<T: StreamSplitter> Preprocessor for Splitter<T> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let Self { streams, rest } = self;
        if rest.is_empty() && Self::passes(batch) {
            return Ok(());
        }
        let due = streams.next_due();
        output.reject_all(rest.cut(batch, |cutter| streams.split(cutter, due)));
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    fn due(&self) -> Option<u64> {
        self.streams.deadlines.first().map(|(due, _)| *due)
    }

    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.streams.take_silent(now, batch);
        self.process(batch, output)
    }

    fn holds(&self, stream: u64) -> bool {
        self.streams.states.get(&stream).is_some_and(Stream::is_unfinished)
            || self.rest.holds(stream)
    }

    fn streams(&self) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.streams.states.keys().copied().chain(self.rest.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl<T: StreamSplitter> Streams<T> {
    /// Returns when a stream with input now is due, in ns. 0 without timeout.
    fn next_due(&self) -> u64 {
        let due = |(timeout, host): &(u64, Host)| host.monotonic_ns().saturating_add(*timeout);
        self.timeout.as_ref().map_or(0, due)
    }

    /// Splits the bytes of one event.
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
        if event.is_stream_aborted() {
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
        buffers.put(&mut stream, states);
        if left.is_some() || stream.is_kept() {
            states.insert(id, stream);
        }
    }

    /// Moves the buffered bytes of all streams that have been silent long enough at `now` to `batch`, as fragments.
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
                batch.stream(id).push_fragment(&stream.take_buffered());
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

/// Hashes stream numbers, which plugins give and no peer chooses.
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
        // The table takes bits from both ends.
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
