//! The preprocessor `join`, which joins the fragments of a stream into one message. Every source of bytes applies
//! `join`, with its default configuration, after its last preprocessor. In this position, `join` only affects fragments
//! that no other preprocessor has split into messages.

use tremor_pdk::{
    Component, ComponentContext, Found, Input, Result, Splitter, StreamSplitter, WholeMessages,
    units::MessageBytes,
};

use super::max_length;

/// Joins the data of a stream into one message at the end of the stream.
#[tremor_pdk::config]
#[derive(Debug)]
pub(crate) struct Config {
    /// Maximum length of a message in bytes. Longer messages go to `err`.
    #[serde(default = "max_length")]
    max_length: MessageBytes,
}

/// The preprocessor `join`.
pub(crate) struct Join {
    max_length: usize,
}

impl Component for Join {
    const NAME: &str = "join";
    type Config = Config;

    fn new(config: Config, _context: ComponentContext) -> Result<Self> {
        Ok(Self { max_length: config.max_length.get() })
    }
}

impl Join {
    /// Returns a preprocessor that joins fragments into messages of at most the default maximum length.
    pub(crate) fn preprocessor(context: ComponentContext) -> Splitter<Self> {
        Splitter::of(Self { max_length: max_length().get() }, Self::NAME, context)
    }
}

impl StreamSplitter for Join {
    type State = ();

    const WHOLE_MESSAGES: WholeMessages = WholeMessages::Pass;
    const PASSES_ENDS: bool = false;

    fn next(&mut self, _state: &mut (), input: Input<'_>) -> Result<Found> {
        let length = input.len();
        Ok(if input.is_end() { Found::message(0..length, length) } else { Found::More })
    }

    fn max_length(&self) -> usize {
        self.max_length
    }
}

#[cfg(test)]
mod tests {
    use tremor_abi::batch::HostBatch;
    use tremor_pdk::{Batch, Output, Preprocessor, testing::TestHost};

    use super::Join;
    use crate::processor::testing::finish;

    #[test]
    fn stream_without_preprocessors_is_one_message() {
        let (mut join, mut output) = (Join::preprocessor(TestHost::new().context()), Output::new());
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
