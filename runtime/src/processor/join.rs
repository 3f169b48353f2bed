//! What stands behind the last preprocessor: fragments that none of them cut are one message a
//! stream.

use std::collections::HashMap;

use tremor_pdk::abi::batch::{Batch, Rejected};

use super::{Preprocessor, reassembly::Partial};

/// The longest message that is put together, in bytes.
const MAX_LENGTH: usize = 256 << 20;

/// Joins the fragments of each stream until it ends.
#[derive(Default)]
pub(crate) struct Join {
    partial: HashMap<u64, Partial>,
}

impl Preprocessor for Join {
    fn process(&mut self, batch: &mut Batch) -> Vec<Rejected> {
        if batch.events().iter().all(|event| !event.is_fragment() && !event.is_stream_end()) {
            return Vec::new();
        }
        batch.cut(|cutter| {
            let event = *cutter.event();
            if event.is_fragment() {
                let partial = self.partial.entry(event.stream).or_default();
                partial.extend(cutter.payload(), MAX_LENGTH);
            } else if event.is_stream_end() {
                if let Some(mut partial) = self.partial.remove(&event.stream) {
                    partial.complete(cutter, 0..0, MAX_LENGTH);
                }
            } else {
                cutter.pass();
            }
        })
    }

    fn finish(&mut self, batch: &mut Batch) -> Vec<Rejected> {
        let mut streams: Vec<u64> = self.partial.keys().copied().collect();
        streams.sort_unstable();
        streams.into_iter().for_each(|stream| batch.end_stream(stream));
        self.process(batch)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::Batch;

    use super::Join;
    use crate::processor::Preprocessor;

    #[test]
    fn a_stream_without_preprocessors_is_one_message() {
        let mut join = Join::default();
        let mut batch = Batch::new();
        batch.push_fragment(0, b"one ");
        batch.push_message(1, b"whole");
        assert!(join.process(&mut batch).is_empty());
        assert_eq!(batch.raw(&batch.events()[0]), Some(&b"whole"[..]));
        let mut end = Batch::new();
        end.push_fragment(0, b"message");
        assert!(join.finish(&mut end).is_empty());
        assert_eq!(end.len(), 1);
        assert_eq!(end.raw(&end.events()[0]), Some(&b"one message"[..]));
    }
}
