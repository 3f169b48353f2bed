//! What the preprocessors of byte streams have in common: each keeps something of every stream, and cuts
//! no more of a batch than one batch should hold.

use halfbrown::{DefaultHashBuilder, SizedHashMap};
use tremor_abi::batch::{Cutter, Rest};
use tremor_pdk::{Batch, Output, Preprocessor, Result};

/// A source mostly has so few streams that comparing them one by one takes less than a hash; it may have
/// thousands, one for each connection. `docs/benchmarks/experiments.md` has the counts.
const FEW: usize = 8;

/// What a preprocessor keeps, by stream.
pub(crate) type States<S> = SizedHashMap<u64, S, DefaultHashBuilder, FEW>;

/// What one preprocessor does, and others do not.
pub(crate) trait Cut: Send + 'static {
    /// What it keeps of a stream.
    type State: Send;

    /// Cuts an event of a stream.
    fn cut(&mut self, states: &mut States<Self::State>, cutter: &mut Cutter<'_>);

    /// Whether a stream of this state has an unfinished message.
    fn is_unfinished(_state: &Self::State) -> bool {
        true
    }
}

/// A preprocessor of byte streams.
pub(crate) struct Streams<C: Cut> {
    cut: C,
    states: States<C::State>,
    /// What has come and is not cut yet.
    rest: Rest,
}

impl<C: Cut> Streams<C> {
    pub(super) fn cutting(cut: C) -> Self {
        Self { cut, states: States::default(), rest: Rest::default() }
    }
}

impl<C: Cut> Preprocessor for Streams<C> {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let Self { cut, states, rest } = self;
        output.reject_all(rest.cut(batch, |cutter| cut.cut(states, cutter)));
        Ok(())
    }

    fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    fn holds(&self, stream: u64) -> bool {
        self.states.get(&stream).is_some_and(C::is_unfinished) || self.rest.holds(stream)
    }

    fn streams(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.states.keys().copied().chain(self.rest.streams()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
