//! Input of a preprocessor that is processed in later batches.

use std::collections::{HashMap, hash_map::Entry};

use super::{Batch, Cutter, Event, Rejected};

/// Maximum weight in bytes of the input that [`RemainingInput::take`] returns. A single event that is heavier is
/// returned alone.
const MAX_TAKEN_BYTES: usize = Batch::WEIGHT_AT_MOST / 2;

/// The remaining input of earlier batches, in order: events whose output did not fit into their batch.
#[derive(Debug, Default)]
pub struct RemainingInput {
    /// Batches in reverse order, each with the number of events that were already taken from it.
    batches: Vec<(Batch, usize)>,
    /// Number of remaining events of each stream.
    streams: HashMap<u64, usize>,
}

impl RemainingInput {
    /// Returns whether no event remains.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns whether events of `stream` remain.
    pub fn contains(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Returns the streams of the remaining events.
    pub fn streams(&self) -> impl Iterator<Item = u64> {
        self.streams.keys().copied()
    }

    /// Adds the events of `batch` before all other events.
    pub fn put(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.count(&batch);
            self.batches.push((batch, 0));
        }
    }

    /// Adds the events of `batch` after all other events.
    pub fn put_last(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.count(&batch);
            self.batches.insert(0, (batch, 0));
        }
    }

    fn count(&mut self, batch: &Batch) {
        for event in batch.events() {
            *self.streams.entry(event.stream).or_default() += 1;
        }
    }

    /// Removes and returns the next events. A batch that is not heavy is returned as a whole. Otherwise the events
    /// weigh at most half of [`Batch::WEIGHT_AT_MOST`], unless a single event is heavier.
    pub fn take(&mut self) -> Option<Batch> {
        let (mut batch, at) = self.batches.pop()?;
        let left = &batch.events()[at..];
        let mut weight = 0;
        let fits = |event: &&Event| {
            weight += batch.weight_of(event);
            weight <= MAX_TAKEN_BYTES
        };
        let is_light = at == 0 && !batch.is_heavy();
        let count = if is_light { left.len() } else { left.iter().take_while(fits).count().max(1) };
        for event in &left[..count] {
            if let Entry::Occupied(mut events) = self.streams.entry(event.stream) {
                *events.get_mut() -= 1;
                if *events.get() == 0 {
                    events.remove();
                }
            }
        }
        if at == 0 && count == batch.len() {
            batch.compact_if_large();
            return Some(batch);
        }
        let taken = left[..count].to_vec();
        let next = batch.detached(&taken);
        if at + count < batch.len() {
            self.batches.push((batch, at + count));
        }
        Some(next)
    }

    /// Calls `cut` for the events of `batch` as [`Batch::cut`] does, but stops when the output reaches
    /// [`Batch::WEIGHT_AT_MOST`]. The remaining input is kept, and is processed before the input of the next call.
    #[must_use = "events that are not passed to `Output::reject_all` are lost"]
    pub fn cut(&mut self, batch: &mut Batch, cut: impl FnMut(&mut Cutter<'_>)) -> Vec<Rejected> {
        if !self.is_empty() {
            self.put_last(std::mem::take(batch));
            *batch = self.take().unwrap_or_default();
        }
        let (rejected, left) = batch.cut_at_most(Batch::WEIGHT_AT_MOST, cut);
        if let Some(left) = left {
            self.put(left);
        }
        rejected
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, RemainingInput};
    use crate::{batch::Cutter, literal};

    fn messages(batch: &Batch) -> Vec<&[u8]> {
        batch.events().iter().map(|event| batch.raw(event).unwrap_or_default()).collect()
    }

    #[test]
    fn light_batch_is_returned_unchanged() {
        let mut remaining = RemainingInput::default();
        let mut batch = Batch::new();
        batch.stream(1).push_message(b"a");
        let address = batch.bytes().as_ptr();
        remaining.put(batch);
        assert_eq!(remaining.streams().collect::<Vec<_>>(), [1]);
        assert_eq!(remaining.take().unwrap().bytes().as_ptr(), address);
        assert!(remaining.is_empty() && remaining.take().is_none());
    }

    #[test]
    fn heavy_batch_is_returned_in_parts_with_metadata() {
        let mut batch = Batch::new();
        for number in 0..100_u64 {
            batch
                .stream(number)
                .push(&literal!({ "n": number, "text": "x".repeat(50_000) }))
                .unwrap();
            batch.set_metadata(batch.len() - 1, literal!({ "n": number }));
            if number % 3 == 0 {
                batch.value_mut(batch.len() - 1).unwrap();
            }
        }
        batch.set_origin("here");
        let mut remaining = RemainingInput::default();
        remaining.put(batch);
        let (mut numbers, mut parts) = (Vec::new(), 0);
        while let Some(part) = remaining.take() {
            parts += 1;
            part.validate().unwrap();
            assert!(!part.is_heavy());
            for event in part.events() {
                let number = |value: crate::document::ValueRef<'_>| value.get("n")?.as_u64();
                assert_eq!(part.origin(event), Some("here"));
                assert_eq!(number(part.metadata(event).unwrap()), Some(event.stream));
                numbers.extend(number(part.value(event).unwrap()));
            }
        }
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert!(parts > 4);
    }

    #[test]
    fn heavy_event_is_returned_alone() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 5 << 20]);
        batch.stream(1).push_message(b"small");
        let mut remaining = RemainingInput::default();
        remaining.put(batch);
        assert_eq!(remaining.take().unwrap().bytes().len(), 5 << 20);
        assert_eq!(messages(&remaining.take().unwrap()), [b"small"]);
        assert!(remaining.is_empty());
    }

    /// Emits a hundred bytes for each byte of the payload.
    fn expand(cutter: &mut Cutter<'_>) {
        for at in 0..cutter.payload().len() {
            if cutter.is_heavy() {
                return cutter.leave(at);
            }
            let byte = cutter.payload()[at];
            cutter.emit_joined(&[byte; 100], 0..0);
        }
        if cutter.event().is_stream_end() {
            cutter.pass();
        }
    }

    #[test]
    fn expanded_input_leaves_in_light_batches_in_order() {
        let mut remaining = RemainingInput::default();
        let mut batch = Batch::new();
        let input: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        batch.stream(0).push_fragment(&input[..60_000]);
        batch.stream(0).push_fragment(&input[60_000..]);
        batch.stream(0).end();
        let (mut found, mut calls, mut ends) = (Vec::new(), 0, 0);
        loop {
            assert!(remaining.cut(&mut batch, expand).is_empty());
            assert!(batch.weight() < Batch::WEIGHT_AT_MOST + input.len() + 1_000);
            let bytes = batch.events().iter().filter_map(|event| batch.raw(event)?.first());
            found.extend(bytes.copied());
            ends += batch.events().iter().filter(|event| event.is_stream_end()).count();
            calls += 1;
            if remaining.is_empty() {
                break;
            }
            assert!(remaining.contains(0) && !remaining.contains(1));
            assert_eq!(remaining.streams().collect::<Vec<_>>(), [0]);
            batch = Batch::new();
        }
        assert!(found == input && ends == 1 && remaining.streams().next().is_none());
        assert_eq!(calls, 8);
    }

    #[test]
    fn new_input_waits_for_remaining_input() {
        let mut remaining = RemainingInput::default();
        let mut batch = Batch::new();
        batch.stream(0).push_fragment("a".repeat(20_000).as_bytes());
        assert!(remaining.cut(&mut batch, expand).is_empty());
        let mut found: Vec<u8> = messages(&batch).iter().map(|message| message[0]).collect();
        let mut next = Batch::new();
        next.stream(0).push_fragment(b"b");
        while !remaining.is_empty() {
            assert!(remaining.cut(&mut next, expand).is_empty());
            found.extend(messages(&next).iter().map(|message| message[0]));
            next = Batch::new();
        }
        assert!(found == ["a".repeat(20_000).as_bytes(), b"b"].concat());
    }

    #[test]
    fn remaining_input_of_a_plain_cut_is_rejected() {
        let mut batch = Batch::new();
        batch.stream(3).push_message(b"abc");
        let rejected = batch.cut(|cutter| cutter.leave(1));
        assert_eq!(batch.original(&rejected[0].event), b"bc");
        assert!(batch.is_empty());
    }
}
