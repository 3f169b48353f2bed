//! Contiguous payloads of a batch, so that a sink can deliver many messages with few writes.

use std::ops::Range;

use crate::{RawBatch, RawEvent};

/// Returns the raw payloads of a batch, in order, as ranges of [`RawBatch::bytes`](crate::TypedBatch::bytes).
///
/// Payloads that are adjacent in memory are joined to one range. A batch that a codec has encoded usually is a single
/// range, so that a sink of bytes can deliver the batch with one write.
pub fn raw_runs(batch: &RawBatch) -> Vec<Range<usize>> {
    let buffer = batch.bytes().as_ptr().addr();
    let mut runs: Vec<Range<usize>> = Vec::new();
    for payload in batch.iter().map(RawEvent::raw) {
        if payload.is_empty() {
            continue;
        }
        let start = payload.as_ptr().addr() - buffer;
        let end = start + payload.len();
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::raw_runs;
    use crate::{Batch, RawBatch};

    #[test]
    fn adjacent_payloads_are_one_run() {
        let mut batch = RawBatch::new();
        for message in ["one\n", "", "two\n", "three\n"] {
            batch.push_message(message.as_bytes());
        }
        assert_eq!(raw_runs(&batch), vec![0..14]);
        assert_eq!(&batch.bytes()[..14], b"one\ntwo\nthree\n");
    }

    #[test]
    fn filtered_event_splits_a_run() {
        let mut batch = Batch::new();
        for message in ["one\n", "two\n", "three\n"] {
            batch.push_message(message.as_bytes());
        }
        batch.retain(|event| event.raw() != Some(b"two\n"));
        assert_eq!(raw_runs(&batch.into()), [0..4, 8..14]);
    }

    #[test]
    fn events_without_bytes_have_no_run() {
        let mut batch = RawBatch::new();
        batch.stream(0).end();
        assert!(raw_runs(&batch).is_empty());
    }
}
