//! The preprocessor `remove-empty`, which drops messages of zero bytes.

use tremor_pdk::{Batch, Component, ComponentContext, NoConfig, Output, Preprocessor, Result};

/// The preprocessor `remove-empty`. Fragments of a stream are not messages, so they pass.
pub(crate) struct RemoveEmpty;

impl Component for RemoveEmpty {
    const NAME: &str = "remove-empty";
    type Config = NoConfig;

    fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
        Ok(Self)
    }
}

impl Preprocessor for RemoveEmpty {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let removed = batch.retain(|event| event.is_fragment() || event.raw() != Some(b""));
        output.discard(removed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tremor_abi::batch::HostOutput;
    use tremor_pdk::{Batch, Output};

    use crate::processor::testing::pre;

    #[test]
    fn empty_messages_are_discarded_and_stream_ends_pass() {
        let mut batch = Batch::new();
        for message in ["", "a", "", "b"] {
            batch.push_message(message.as_bytes());
        }
        batch.stream(0).end();
        let mut output = Output::new();
        pre("remove-empty", &json!(null)).process(&mut batch, &mut output).unwrap();
        assert_eq!((batch.len(), output.take_discarded()), (3, 2));
    }
}
