//! Common parts of preprocessors of byte streams. They keep a state for each stream, and limit the output of a call to
//! the weight of one batch.

use halfbrown::{DefaultHashBuilder, SizedHashMap};
use tremor_abi::batch::{Cutter, RemainingInput};
use tremor_pdk::{Batch, Output, Preprocessor, Result};

/// Number of streams up to which states are searched linearly. For the few streams that most sources have, this is
/// faster than a hash table. A source may also have thousands of streams, one for each connection.
/// `docs/benchmarks/experiments.md` contains the measurements.
const FEW: usize = 8;

/// The states of a preprocessor, by stream.
pub(crate) type States<S> = SizedHashMap<u64, S, DefaultHashBuilder, FEW>;

/// The part of a preprocessor that is specific to its format.
pub(crate) trait Cut: Send + 'static {
    /// State of a stream.
    type State: Send;

    /// Processes a fragment of a stream.
    fn fragment(&mut self, states: &mut States<Self::State>, cutter: &mut Cutter<'_>);

    /// Processes the end of a stream.
    fn end(&mut self, states: &mut States<Self::State>, cutter: &mut Cutter<'_>);

    /// Processes a whole message.
    fn message(&mut self, cutter: &mut Cutter<'_>);

    /// Processes an event of a stream, which may be a fragment, a whole message or the end of the stream.
    fn cut(&mut self, states: &mut States<Self::State>, cutter: &mut Cutter<'_>) {
        if cutter.event().is_stream_end() {
            self.end(states, cutter);
        } else if cutter.event().is_fragment() {
            self.fragment(states, cutter);
        } else {
            self.message(cutter);
        }
    }

    /// Returns whether a stream with this state has an incomplete message. The default is `true`, for formats that have
    /// a state only while a message is incomplete.
    fn is_unfinished(_state: &Self::State) -> bool {
        true
    }
}

/// A preprocessor of byte streams.
pub(crate) struct Streams<C: Cut> {
    cut: C,
    states: States<C::State>,
    /// Input that was received and is not processed yet.
    remaining: RemainingInput,
}

impl<C: Cut> Streams<C> {
    pub(super) fn cutting(cut: C) -> Self {
        Self { cut, states: States::default(), remaining: RemainingInput::default() }
    }
}

impl<C: Cut> Preprocessor for Streams<C> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let Self { cut, states, remaining } = self;
        output.reject_all(remaining.cut(batch, |cutter| cut.cut(states, cutter)));
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.remaining.is_empty()
    }

    fn buffers(&self, stream: u64) -> bool {
        self.states.get(&stream).is_some_and(C::is_unfinished) || self.remaining.contains(stream)
    }

    fn streams(&self) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.states.keys().copied().chain(self.remaining.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
