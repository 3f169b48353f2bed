//! `join`: fragments that no preprocessor before it has cut are one message a stream. It stands, with
//! what it takes unless told otherwise, after the last preprocessor of every source of bytes.

use tremor_pdk::{
    Batch, Component, Context, Memory, Result, abi::batch::Cutter, abi::batch::HostBatch,
};

use super::{
    reassembly::{self, Held, Partial},
    streams::{Cut, States, Streams},
};

/// Makes one message of everything that a stream brings until it ends.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// The longest message that is taken, in bytes. Longer ones go to `err`.
    #[serde(default = "reassembly::max_length")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    max_length: usize,
}

/// Joins the fragments of each stream until it ends.
pub(crate) type Join = Streams<JoinFragments>;

pub(crate) struct JoinFragments(Held);

#[cfg(test)]
impl Default for Join {
    fn default() -> Self {
        Self::of(reassembly::max_length(), None)
    }
}

impl Component for Join {
    const NAME: &str = "join";
    type Config = Config;

    fn new(config: Config, context: Context) -> Result<Self> {
        Ok(Self::of(config.max_length, context.memory()))
    }
}

impl Join {
    /// Joins fragments to messages of up to `max_length` bytes, whose beginnings are counted in `memory`.
    pub(super) fn of(max_length: usize, memory: impl Into<Option<Memory>>) -> Self {
        Self::cutting(JoinFragments(Held::new(Self::NAME, max_length, memory)))
    }
}

impl Cut for JoinFragments {
    type State = Partial;

    fn cut(&mut self, states: &mut States<Partial>, cutter: &mut Cutter<'_>) {
        let Self(held) = self;
        let event = *cutter.event();
        if !event.is_fragment() && !event.is_stream_end() {
            return cutter.pass();
        }
        let mut partial = states.remove(&event.stream).unwrap_or_default();
        held.take(&partial);
        if event.is_stream_end() {
            return partial.end(cutter, held);
        }
        partial.extend(cutter.payload(), held);
        if !partial.is_empty() {
            held.put(&mut partial, states, |other| Some(other));
            states.insert(event.stream, partial);
        }
    }

    fn passes(batch: &Batch) -> bool {
        batch.events().iter().all(|event| !event.is_fragment() && !event.is_stream_end())
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::abi::batch::HostBatch;
    use tremor_pdk::{Batch, Output, Preprocessor};

    use super::Join;
    use crate::processor::testing::finish;

    #[test]
    fn a_stream_without_preprocessors_is_one_message() {
        let (mut join, mut output) = (Join::default(), Output::new());
        let mut batch = Batch::new();
        batch.stream(0).push_fragment(b"one ");
        batch.stream(1).push_message(b"whole");
        join.process(&mut batch, &mut output).unwrap();
        assert_eq!(batch.raw(&batch.events()[0]), Some(&b"whole"[..]));
        let mut end = Batch::new();
        end.stream(0).push_fragment(b"message");
        finish(&mut join, &mut end, &mut output);
        assert!(output.rejected().is_empty());
        assert_eq!(end.len(), 1);
        assert_eq!(end.raw(&end.events()[0]), Some(&b"one message"[..]));
    }
}
