//! Comparison of the events that an operator returns with the events that it got.

use std::fmt;

use super::{Batch, Event, Output};

/// The identities of the events that an operator gets in a call. After the call, they show whether the operator returned
/// other events in place of some of them, which numbers of events do not show.
///
/// An event is recognised by its pull, by its position in the pull, and by the length of the message that it was decoded
/// from. An event without a position in its pull gets a position in the batch instead. Copies of an event have its
/// identity. Therefore an exchange is not found of events of the same length that were cut from a single message, if that
/// message has a position because its source has acknowledgements.
///
/// Reuse the identities for several calls, because their lists keep the allocated capacity.
#[derive(Debug, Default)]
pub struct Identities {
    got: Vec<Identity>,
    /// `true` for each identity of `got` that was found among the returned events.
    found: Vec<bool>,
    /// Identities of the returned events, for [`Identities::count`].
    returned: Vec<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(u64, u64);

/// Numbers of events that an operator returned in place of other events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surplus {
    /// Number of events that were returned before in the same call.
    repeated: usize,
    /// Number of events that the operator did not get in the call.
    foreign: usize,
    /// Number of new events.
    new: usize,
}

impl Surplus {
    /// Returns whether the operator returned no event in place of another.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.repeated == 0 && self.foreign == 0 && self.new == 0
    }
}

impl fmt::Display for Surplus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { repeated, foreign, new } = self;
        let all = repeated + foreign + new;
        write!(
            f,
            "{all} events in place of others: {repeated} that it had returned before, {foreign} that it had not received \
             in this call, and {new} new events"
        )
    }
}

impl Event {
    #[inline]
    fn identity(&self) -> Identity {
        // Numbers of pulls and sources are small, so their bits do not overlap.
        let pull = self.pull ^ u64::from(self.source).rotate_right(24);
        Identity(pull, (u64::from(self.original.len) << 16) | u64::from(self.position))
    }
}

impl Identities {
    /// Records the events of a batch before a call, which includes setting the positions of events that have none.
    #[inline]
    pub fn record(&mut self, batch: &mut Batch) {
        self.got.clear();
        self.got.extend(batch.events_mut().iter_mut().enumerate().map(|(index, event)| {
            event.set_index(index);
            event.identity()
        }));
    }

    /// Compares the results of the call with the recorded events: `batch` contains the events that stayed in the batch
    /// of the call.
    #[inline]
    pub fn surplus(&mut self, batch: &Batch, output: &Output) -> Surplus {
        let events = batch.events();
        let is_same = events.len() == self.got.len()
            && output.is_empty()
            && events.iter().zip(&self.got).all(|(event, got)| event.identity() == *got);
        if is_same { Surplus::default() } else { self.compare(batch, output) }
    }

    #[inline(never)]
    fn compare(&mut self, batch: &Batch, output: &Output) -> Surplus {
        let returned = || {
            let rejected = output.rejected().iter().map(|rejected| &rejected.event);
            let sent = output.all_batches().flat_map(Batch::events);
            batch.events().iter().chain(sent).chain(rejected)
        };
        let known = || returned().filter(|event| event.is_known());
        let new = returned().count() - known().count();
        let known = if self.find(known()) { Surplus::default() } else { self.count(known()) };
        let mut surplus = Surplus { new, ..known };
        // Events that replace absorbed events, or that are created, may be any events.
        let mut allowed = output.replacing();
        for count in [&mut surplus.new, &mut surplus.foreign, &mut surplus.repeated] {
            let excused = allowed.min(*count);
            (*count, allowed) = (*count - excused, allowed - excused);
        }
        surplus
    }

    /// Returns whether each of the events is one of those that were recorded, and none occurs twice. Gives up if most of
    /// the events are not in the order in which they were recorded.
    fn find<'e>(&mut self, returned: impl Iterator<Item = &'e Event>) -> bool {
        let count = self.got.len();
        self.found.clear();
        self.found.resize(count, false);
        let (mut next, mut left) = (0, 8 * count);
        for event in returned {
            let identity = event.identity();
            loop {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let at = next;
                next = if at + 1 == count { 0 } else { at + 1 };
                if self.got[at] == identity && !std::mem::replace(&mut self.found[at], true) {
                    break;
                }
            }
        }
        true
    }

    /// Counts the events that were not recorded, or that occur more often than they were recorded. Sorts the recorded
    /// events.
    fn count<'e>(&mut self, returned: impl Iterator<Item = &'e Event>) -> Surplus {
        let Self { got, returned: sorted, .. } = self;
        sorted.clear();
        sorted.extend(returned.map(Event::identity));
        sorted.sort_unstable();
        got.sort_unstable();
        let (mut surplus, mut next) = (Surplus::default(), 0);
        for identity in sorted {
            while got.get(next).is_some_and(|got| got < identity) {
                next += 1;
            }
            if got.get(next) == Some(identity) {
                next += 1;
            } else if next > 0 && got[next - 1] == *identity {
                surplus.repeated += 1;
            } else {
                surplus.foreign += 1;
            }
        }
        surplus
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Identities, Output, Surplus};
    use crate::{batch::Buffered, document::Writer};

    /// Returns a batch of the pull `pull`, whose messages all have the same length and no positions.
    fn batch(pull: u64, count: usize) -> Batch {
        let mut batch = Batch::new();
        for number in 0..count {
            batch.push_message(&[b'0' + u8::try_from(number % 10).unwrap()]);
        }
        batch.events_mut().iter_mut().for_each(|event| event.pull = pull);
        batch
    }

    fn surplus(
        count: usize,
        operate: impl FnOnce(&mut Batch, &mut Output),
    ) -> (usize, usize, usize) {
        let (mut identities, mut output) = (Identities::default(), Output::new());
        let mut batch = batch(1, count);
        output.begin(1);
        identities.record(&mut batch);
        operate(&mut batch, &mut output);
        let Surplus { repeated, foreign, new } = identities.surplus(&batch, &output);
        (repeated, foreign, new)
    }

    #[test]
    fn each_event_may_be_returned_once_in_any_order() {
        assert_eq!(surplus(4, |_, _| {}), (0, 0, 0));
        let removed = |batch: &mut Batch, output: &mut Output| {
            output.send(2, batch.part(1..3));
            output.send(Output::OUT, batch.part(9..10));
            output.reject(batch.events()[4], crate::error::PluginError::bad_data("odd"));
            *batch = batch.pick(&[8, 5]);
        };
        assert_eq!(surplus(10, removed), (0, 0, 0));
        let reversed = |batch: &mut Batch, _: &mut Output| batch.events_mut().reverse();
        assert_eq!(surplus(1_000, reversed), (0, 0, 0));
        let copied = |batch: &mut Batch, _: &mut Output| {
            let mut copy = Batch::new();
            batch.iter().rev().for_each(|event| copy.push_event(event));
            *batch = copy;
        };
        assert_eq!(surplus(40_000, copied), (0, 0, 0));
    }

    /// Returns a decoded batch, whose events have the bytes that they were decoded from.
    fn decoded(count: usize) -> Batch {
        let mut batch = batch(1, count);
        let rejected = batch.decode_as(|bytes, nodes, span| {
            let number = i64::from(bytes[span.start as usize]);
            let mut writer = Writer::new(bytes, nodes);
            writer.begin_object();
            writer.key("number");
            writer.i64(number);
            writer.end_object();
            let root = writer.finish().map_err(crate::error::PluginError::internal)?;
            Ok((root, Some(crate::batch::Format::Json)))
        });
        assert!(rejected.is_empty());
        batch
    }

    #[test]
    fn edited_and_copied_events_are_recognised() {
        type Edit = fn(&mut Batch, &mut Output);
        let edits: [Edit; 12] = [
            |batch, _| batch.for_each_mut(|mut it| *it.value_mut().unwrap() = "new".into()),
            |batch, _| {
                batch.for_each_mut(|mut it| {
                    it.write_value(|to| {
                        to.null();
                        Ok(())
                    })
                    .unwrap();
                });
            },
            |batch, _| batch.for_each_mut(|mut it| it.set_metadata("new".into())),
            |batch, _| batch.for_each_mut(|mut it| it.write_metadata(|to| to.str("new")).unwrap()),
            |batch, _| batch.for_each_mut(|mut it| it.set_ingest_ns(7)),
            |batch, _| {
                let mut copy = Batch::new();
                batch.iter().for_each(|event| copy.push_event(event));
                *batch = copy;
            },
            |batch, _| {
                let mut copy = Batch::new();
                copy.append(batch.part(2..4));
                copy.append(batch.part(0..2));
                *batch = copy;
            },
            |batch, _| *batch = batch.pick(&[3, 1, 0, 2]),
            |batch, output| output.divert(batch, |_| crate::batch::Verdict::Port(1)),
            |batch, output| {
                let mut copy = Batch::new();
                batch.iter().for_each(|event| copy.push_event(event));
                let mut buffered = Buffered::new();
                buffered.absorb_all(batch, output);
                buffered.emit_events(output, 0, copy);
            },
            |batch, output| {
                let mut buffered = Buffered::new();
                let taken = buffered.absorb_all(batch, output);
                buffered.reject(output, taken, crate::error::PluginError::bad_data("no"));
            },
            |batch, _| {
                batch.compact_sparse();
                batch.for_each_mut(|mut it| it.set_metadata("new".into()));
            },
        ];
        for (number, edit) in edits.iter().enumerate() {
            for shared in [false, true] {
                let (mut identities, mut output) = (Identities::default(), Output::new());
                let mut batch = decoded(4);
                let _other = shared.then(|| batch.clone());
                output.begin(1);
                identities.record(&mut batch);
                edit(&mut batch, &mut output);
                let surplus = identities.surplus(&batch, &output);
                assert!(surplus.is_none(), "{number} {shared}: {surplus:?}");
            }
        }
    }

    #[test]
    fn repeated_and_foreign_events_are_counted() {
        let twice = |batch: &mut Batch, output: &mut Output| {
            output.send(Output::OUT, batch.part(0..2));
            *batch = batch.part(0..8);
        };
        assert_eq!(surplus(10, twice), (2, 0, 0));
        let copied = |batch: &mut Batch, _: &mut Output| {
            let copy = batch.clone();
            batch.retain(|event| event.raw() != Some(b"0"));
            batch.push_event(copy.get(3).unwrap());
        };
        assert_eq!(surplus(10, copied), (1, 0, 0));
        let rejected = |batch: &mut Batch, output: &mut Output| {
            output.reject(batch.events()[0], crate::error::PluginError::bad_data("odd"));
            *batch = batch.part(0..9);
        };
        assert_eq!(surplus(10, rejected), (1, 0, 0));
        let mut other = batch(2, 10);
        let exchanged = |batch: &mut Batch, _: &mut Output| {
            Identities::default().record(&mut other);
            *batch = other;
        };
        assert_eq!(surplus(10, exchanged), (0, 10, 0));
    }

    #[test]
    fn events_that_replace_others_may_be_any_events() {
        let created = |batch: &mut Batch, output: &mut Output| {
            output.create(&1).unwrap();
            output.retain(batch, |event| event.raw() != Some(b"0"));
        };
        assert_eq!(surplus(3, created), (0, 0, 0));
        let pushed = |batch: &mut Batch, _: &mut Output| {
            batch.retain(|event| event.raw() != Some(b"1"));
            batch.push(&"new").unwrap();
        };
        assert_eq!(surplus(3, pushed), (0, 0, 1));
        let emitted = |batch: &mut Batch, output: &mut Output| {
            let mut buffered = Buffered::new();
            let taken = buffered.absorb_all(batch, output);
            let mut events = taken.part(0..1);
            events.push_event(taken.get(0).unwrap());
            buffered.emit_events(output, 0, events);
        };
        assert_eq!(surplus(2, emitted), (0, 0, 0));
        // The emitted event replaces the absorbed events, and none of the others.
        let repeated = |batch: &mut Batch, output: &mut Output| {
            let mut buffered = Buffered::new();
            let copy = batch.clone();
            let taken = buffered.absorb_all(batch, output);
            *batch = taken.part(1..3);
            buffered.emit(output, &"sum").unwrap();
            batch.push_event(copy.get(1).unwrap());
        };
        assert_eq!(surplus(3, repeated), (1, 0, 0));
    }
}
