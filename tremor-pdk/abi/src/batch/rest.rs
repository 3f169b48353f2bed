//! Events that wait for another batch.

use std::collections::{HashMap, hash_map::Entry};

use super::{Batch, Cutter, Event, Rejected};

/// How much of the rest is taken at a time, in bytes.
const TAKEN: usize = Batch::WEIGHT_AT_MOST / 2;

/// What is left of batches, in order: events that did not fit, and go on in others.
#[derive(Debug, Default)]
pub struct Rest {
    /// The last comes next; each with the number of its events that have been taken.
    batches: Vec<(Batch, usize)>,
    /// How many events are left of each stream.
    streams: HashMap<u64, usize>,
}

impl Rest {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether something is left of a stream.
    pub fn holds(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// The streams that something is left of.
    pub fn streams(&self) -> impl Iterator<Item = u64> {
        self.streams.keys().copied()
    }

    /// Puts events before all others.
    pub fn put(&mut self, batch: Batch) {
        if !batch.is_empty() {
            self.count(&batch);
            self.batches.push((batch, 0));
        }
    }

    /// Puts events after all others.
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

    /// The events that come next: no more than one batch should have, or one event.
    pub fn take(&mut self) -> Option<Batch> {
        let (mut batch, at) = self.batches.pop()?;
        let left = &batch.events()[at..];
        let mut weight = 0;
        let fits = |event: &&Event| {
            weight += batch.weight_of(event);
            weight <= TAKEN
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
            batch.shed();
            return Some(batch);
        }
        let taken = left[..count].to_vec();
        let next = batch.detached(&taken);
        if at + count < batch.len() {
            self.batches.push((batch, at + count));
        }
        Some(next)
    }

    /// Runs a preprocessor over `batch` as [`Batch::cut`] does, but puts out no more than one batch
    /// should hold: what is left then waits here, and comes before what is given next. Without any
    /// of that left, a whole batch is cut at once.
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
    use super::{Batch, Rest};
    use crate::{batch::Cutter, literal};

    fn messages(batch: &Batch) -> Vec<&[u8]> {
        batch.events().iter().map(|event| batch.raw(event).unwrap_or_default()).collect()
    }

    #[test]
    fn a_light_batch_comes_back_as_it_is() {
        let mut rest = Rest::default();
        let mut batch = Batch::new();
        batch.stream(1).push_message(b"a");
        let address = batch.bytes().as_ptr();
        rest.put(batch);
        assert_eq!(rest.streams().collect::<Vec<_>>(), [1]);
        assert_eq!(rest.take().unwrap().bytes().as_ptr(), address);
        assert!(rest.is_empty() && rest.take().is_none());
    }

    #[test]
    fn a_heavy_batch_comes_in_parts_with_all_that_belongs_to_its_events() {
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
        let mut rest = Rest::default();
        rest.put(batch);
        let (mut numbers, mut parts) = (Vec::new(), 0);
        while let Some(part) = rest.take() {
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
    fn one_event_that_is_heavy_by_itself_comes_alone() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 5 << 20]);
        batch.stream(1).push_message(b"small");
        let mut rest = Rest::default();
        rest.put(batch);
        assert_eq!(rest.take().unwrap().bytes().len(), 5 << 20);
        assert_eq!(messages(&rest.take().unwrap()), [b"small"]);
        assert!(rest.is_empty());
    }

    /// Puts a hundred bytes out for each.
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
    fn what_is_made_much_of_comes_in_light_batches_in_order() {
        let mut rest = Rest::default();
        let mut batch = Batch::new();
        let input: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        batch.stream(0).push_fragment(&input[..60_000]);
        batch.stream(0).push_fragment(&input[60_000..]);
        batch.stream(0).end();
        let (mut found, mut calls, mut ends) = (Vec::new(), 0, 0);
        loop {
            assert!(rest.cut(&mut batch, expand).is_empty());
            assert!(batch.weight() < Batch::WEIGHT_AT_MOST + input.len() + 1_000);
            let bytes = batch.events().iter().filter_map(|event| batch.raw(event)?.first());
            found.extend(bytes.copied());
            ends += batch.events().iter().filter(|event| event.is_stream_end()).count();
            calls += 1;
            if rest.is_empty() {
                break;
            }
            assert!(rest.holds(0) && !rest.holds(1));
            assert_eq!(rest.streams().collect::<Vec<_>>(), [0]);
            batch = Batch::new();
        }
        assert!(found == input && ends == 1 && rest.streams().next().is_none());
        assert_eq!(calls, 8);
    }

    #[test]
    fn what_is_given_before_the_rest_is_out_waits_for_it() {
        let mut rest = Rest::default();
        let mut batch = Batch::new();
        batch.stream(0).push_fragment("a".repeat(20_000).as_bytes());
        rest.cut(&mut batch, expand);
        let mut found: Vec<u8> = messages(&batch).iter().map(|message| message[0]).collect();
        let mut next = Batch::new();
        next.stream(0).push_fragment(b"b");
        while !rest.is_empty() {
            rest.cut(&mut next, expand);
            found.extend(messages(&next).iter().map(|message| message[0]));
            next = Batch::new();
        }
        assert!(found == ["a".repeat(20_000).as_bytes(), b"b"].concat());
    }

    #[test]
    fn a_rest_that_nobody_comes_back_for_is_rejected() {
        let mut batch = Batch::new();
        batch.stream(3).push_message(b"abc");
        let rejected = batch.cut(|cutter| cutter.leave(1));
        assert_eq!(batch.original(&rejected[0].event), b"bc");
        assert!(batch.is_empty());
    }
}
