//! What stands behind the last preprocessor: fragments that none of them cut are one message a
//! stream.

use std::collections::HashMap;

use tremor_pdk::{Batch, Output, Preprocessor, Result};

use super::reassembly::{self, Partial};

/// The longest message that is put together, in bytes.
const MAX_LENGTH: usize = 256 << 20;

/// Joins the fragments of each stream until it ends.
#[derive(Default)]
pub(crate) struct Join {
    partial: HashMap<u64, Partial>,
}

impl Preprocessor for Join {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        if batch.events().iter().all(|event| !event.is_fragment() && !event.is_stream_end()) {
            return Ok(());
        }
        output.reject_all(batch.cut(|cutter| {
            let event = *cutter.event();
            if event.is_fragment() {
                let partial = self.partial.entry(event.stream).or_default();
                partial.extend(cutter.payload(), MAX_LENGTH);
            } else if event.is_stream_end() {
                if let Some(mut partial) = self.partial.remove(&event.stream) {
                    partial.end(cutter, MAX_LENGTH);
                }
            } else {
                cutter.pass();
            }
        }));
        Ok(())
    }

    fn holds(&self, stream: u64) -> bool {
        self.partial.contains_key(&stream)
    }

    fn streams(&self) -> Vec<u64> {
        reassembly::streams(&self.partial)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::{Batch, Output, Preprocessor};

    use super::Join;
    use crate::processor::testing::finish;

    #[test]
    fn a_stream_without_preprocessors_is_one_message() {
        let (mut join, mut output) = (Join::default(), Output::new());
        let mut batch = Batch::new();
        batch.push_fragment(0, b"one ");
        batch.push_message(1, b"whole");
        join.process(&mut batch, &mut output).unwrap();
        assert_eq!(batch.raw(&batch.events()[0]), Some(&b"whole"[..]));
        let mut end = Batch::new();
        end.push_fragment(0, b"message");
        finish(&mut join, &mut end, &mut output);
        assert!(output.rejected().is_empty());
        assert_eq!(end.len(), 1);
        assert_eq!(end.raw(&end.events()[0]), Some(&b"one message"[..]));
    }
}
