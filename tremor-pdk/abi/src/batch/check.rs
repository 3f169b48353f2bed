//! Checking a batch that came over the boundary.
//!
//! A plugin that leaves what cannot be in a batch has a bug. This check finds it where it happens, and
//! names the event.
//!
//! Memory safety does not depend on it. Reading stays within a batch's buffers, whatever they hold, and
//! takes text for UTF-8 only where it has looked at it ([`document`](crate::document)). So what the check does
//! not find becomes wrong values, and nothing worse. It does not look again at what was valid before a
//! call, because the kit's code only adds to buffers at their ends. A plugin's own code can overwrite
//! them: with `unsafe`, or in a decoder, which gets them whole.

use super::{Batch, Event, PayloadKind};
use crate::{document::Validator, error::PluginError};

/// What a batch had before a plugin got it to edit: what
/// [`HostBatch::validate_changes`](super::HostBatch::validate_changes) need not look at again. Kept from batch to batch for its capacity.
#[derive(Debug, Default)]
pub struct Mark {
    /// The address of the nodes.
    address: usize,
    nodes: usize,
    bytes: usize,
    events: Vec<Event>,
}

impl Batch {
    pub(crate) fn validate(&self) -> Result<(), PluginError> {
        let documents = self.documents(0);
        let (bytes, values) = (self.bytes().len(), self.values.len());
        for (position, event) in self.events().iter().enumerate() {
            let is_plain_message = event.kind == PayloadKind::RAW
                && event.payload.range().end <= bytes
                && event.original.word() == 0
                && event.origin as usize <= values
                && event.metadata == 0;
            if !is_plain_message {
                self.validate_event(position, event, &documents)?;
            }
        }
        Ok(())
    }

    pub(crate) fn mark(&self, mark: &mut Mark) {
        mark.address = self.nodes().as_ptr().addr();
        (mark.nodes, mark.bytes) = (self.nodes().len(), self.bytes().len());
        mark.events.clear();
        mark.events.extend_from_slice(&self.events);
    }

    pub(crate) fn validate_changes(&self, mark: &Mark) -> Result<(), PluginError> {
        let nodes = self.nodes();
        // Buffers only get longer at their ends: see the module. While they lie where they lay, what was
        // valid in them is valid still.
        let same = nodes.as_ptr().addr() == mark.address
            && nodes.len() >= mark.nodes
            && self.bytes().len() >= mark.bytes;
        let known: &[Event] = if same { &mark.events } else { &[] };
        let documents = self.documents(mark.bytes);
        let mut expected = known;
        for (position, event) in self.events().iter().enumerate() {
            // Events mostly keep their order, so the one looked for is mostly the next one.
            let old = match expected.split_first() {
                Some((old, rest)) if event.has_payload_of(old) => {
                    expected = rest;
                    Some(old)
                }
                _ => find(known, event).map(|at| {
                    expected = &known[at + 1..];
                    &known[at]
                }),
            };
            let Some(old) = old.filter(|_| event.origin as usize <= self.values.len()) else {
                self.validate_event(position, event, &documents)?;
                continue;
            };
            let is_sound = event.metadata == 0
                || event.metadata_root().is_some_and(|root| {
                    event.metadata == old.metadata || documents.is_flat(nodes, root)
                });
            if !is_sound {
                self.validate_metadata(position, event, &documents)?;
            }
        }
        Ok(())
    }

    /// For documents of which the text mostly lies after the first `old` bytes.
    fn documents(&self, old: usize) -> Validator<'_> {
        // A batch without nodes has none, and its bytes are not looked at.
        let old = if self.nodes().is_empty() { self.bytes().len() } else { old };
        Validator::new(self.bytes(), old)
    }

    #[inline(never)]
    fn validate_event(
        &self,
        position: usize,
        event: &Event,
        documents: &Validator<'_>,
    ) -> Result<(), PluginError> {
        let bytes = self.bytes().len();
        match event.kind {
            PayloadKind::NONE => {}
            PayloadKind::RAW if event.payload.range().end <= bytes => {}
            PayloadKind::RAW => {
                return Err(forged(position, "refers to bytes outside of the batch"));
            }
            PayloadKind::DOCUMENT => {
                let document = documents.validate(self.nodes(), event.payload.start);
                document.map_err(|invalid| forged(position, format_args!("is an {invalid}")))?;
            }
            PayloadKind::VALUE if self.has_value(event.payload.start) => {}
            PayloadKind::VALUE => {
                return Err(forged(position, "refers to a value outside of the batch"));
            }
            PayloadKind(kind) => {
                let what = format_args!("has an unknown kind of payload, {kind}");
                return Err(forged(position, what));
            }
        }
        if event.original.range().end > bytes {
            return Err(forged(position, "refers to original bytes outside of the batch"));
        }
        if event.origin.checked_sub(1).is_some_and(|origin| !self.has_value(origin)) {
            return Err(forged(position, "refers to an origin outside of the batch"));
        }
        self.validate_metadata(position, event, documents)
    }

    #[inline(never)]
    fn validate_metadata(
        &self,
        position: usize,
        event: &Event,
        documents: &Validator<'_>,
    ) -> Result<(), PluginError> {
        if let Some(root) = event.metadata_root() {
            documents.validate(self.nodes(), root).map_err(|invalid| {
                forged(position, format_args!("has metadata that is an {invalid}"))
            })?;
        }
        if event.metadata_value().is_some_and(|metadata| !self.has_value(metadata)) {
            return Err(forged(position, "refers to metadata outside of the batch"));
        }
        Ok(())
    }

    fn has_value(&self, position: u32) -> bool {
        (position as usize) < self.values.len()
    }
}

impl Event {
    /// Whether its payload is the part of the batch's buffers that another event's is.
    #[inline]
    fn has_payload_of(&self, other: &Self) -> bool {
        self.payload.word() == other.payload.word()
            && self.original.word() == other.original.word()
            && self.kind == other.kind
            && self.kind != PayloadKind::VALUE
    }
}

/// Looks for an event with the same payload: payloads mostly lie in the order of their events. One
/// that is not found is looked at again, no more.
#[inline(never)]
fn find(known: &[Event], event: &Event) -> Option<usize> {
    let found = known.binary_search_by_key(&event.payload.start, |old| old.payload.start).ok()?;
    event.has_payload_of(&known[found]).then_some(found)
}

fn forged(position: usize, what: impl std::fmt::Display) -> PluginError {
    PluginError::internal(format_args!("event {position} of a batch {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Batch, Mark, PayloadKind};
    use crate::{batch::Span, document::Node, error::ErrorKind, literal, value::Value};

    #[test]
    fn what_the_batch_s_own_methods_made_is_valid() {
        let mut batch = Batch::new();
        batch.stream(1).push_message(b"raw");
        batch.stream(1).push(&["a", "b"]).unwrap();
        batch.set_metadata(1, Value::from("known".to_owned()));
        batch.set_origin("here");
        batch.stream(1).end();
        batch.value_mut(1).unwrap();
        batch.validate().unwrap();
    }

    #[test]
    fn what_was_forged_is_an_error_that_names_the_event() {
        let refused = |forge: &dyn Fn(&mut Batch)| {
            let mut batch = Batch::new();
            batch.stream(1).push_message(b"raw");
            batch.stream(1).push(&["a", "b"]).unwrap();
            forge(&mut batch);
            let error = batch.validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::INTERNAL);
            error.to_string()
        };
        let outside = Span { start: u32::MAX, len: 2 };
        let text = refused(&|batch| batch.events[0].payload = outside);
        assert!(text.starts_with("event 0 "), "{text}");
        let text = refused(&|batch| batch.events[1].payload = outside);
        assert!(text.contains("node 4294967295 does not exist"), "{text}");
        refused(&|batch| batch.events[0].original = outside);
        refused(&|batch| batch.events[1].kind = PayloadKind::VALUE);
        refused(&|batch| batch.events[1].kind = PayloadKind(77));
        refused(&|batch| batch.events[1].metadata = 1);
        let text = refused(&|batch| batch.events[1].metadata = u32::MAX);
        assert!(text.contains("has metadata that is an invalid document"), "{text}");
        refused(&|batch| batch.events[1].origin = 9);
    }

    #[test]
    fn after_a_mark_whatever_is_new_is_looked_at() {
        let mut batch = Batch::new();
        for number in 0..4 {
            batch.stream(number).push(&["a", "b"]).unwrap();
        }
        let mut mark = Mark::default();
        batch.mark(&mut mark);
        batch.validate_changes(&mark).unwrap();

        batch.events.swap(0, 3);
        batch.events.truncate(3);
        batch.stream(9).push(&[1]).unwrap();
        batch.write_metadata(1, |writer| writer.str("new")).unwrap();
        *batch.value_mut(2).unwrap() = Value::from(1);
        batch.validate_changes(&mark).unwrap();

        let new = batch.events[3].payload.start as usize;
        let (_, nodes) = batch.buffers_mut();
        nodes[new] = Node::array(u32::MAX, u32::MAX.into());
        let error = batch.validate_changes(&mark).unwrap_err();
        assert!(error.to_string().starts_with("event 3 "), "{error}");
    }

    /// What a plugin may do to a batch, or should not; the numbers say to which event and how.
    fn edit(batch: &mut Batch, (edit, event, number): (u8, usize, u32)) {
        let count = batch.len();
        if count == 0 {
            return batch.push_message(b"one more");
        }
        let position = event % count;
        match edit {
            0 => batch.events.swap(0, position),
            1 => drop(batch.events.remove(position)),
            2 => batch.stream(7).push(&literal!({ "new": [number] })).unwrap(),
            3 => batch.write_metadata(position, |writer| writer.str("\u{e4}")).unwrap(),
            4 => batch
                .write_metadata(position, |writer| {
                    writer.begin_object();
                    writer.key("rate");
                    writer.u64(number.into());
                    writer.end_object();
                })
                .unwrap(),
            5 => batch.set_metadata(position, Value::from(number)),
            6 => drop(batch.value_mut(position).map(|value| *value = Value::from(number))),
            7 => batch.set_origin_from(position, "elsewhere"),
            8 => *batch = batch.clone(),
            9 => batch.events.push(batch.events[position]),
            // From here on it forges.
            10 => batch.events[position].payload.start = number,
            11 => batch.events[position].kind = PayloadKind(number.to_le_bytes()[0]),
            12 => batch.events[position].metadata = number,
            13 => batch.events[position].origin = number,
            14 => batch.events[position].original = Span { start: number, len: 4 },
            _ => {
                let node = *batch.nodes().last().unwrap_or(&Node::null());
                batch.buffers_mut().1.push(Node::object(number, node.payload()));
                let root = u32::try_from(batch.nodes().len() - 1).unwrap();
                batch.events[position].metadata =
                    (root + 1) | super::super::event::METADATA_IN_NODES;
            }
        }
    }

    proptest! {
        #[test]
        fn a_check_of_what_is_new_finds_what_a_check_of_everything_finds(
            edits in prop::collection::vec(
                (0_u8..16, 0_usize..9, prop_oneof![3 => 0_u32..40, 1 => any::<u32>()]), 0..12,
            ),
        ) {
            let mut batch = Batch::new();
            for number in 0..3 {
                batch.stream(number).push_message(b"raw");
                batch.stream(number).push(&literal!({ "number": number })).unwrap();
                batch.write_metadata(batch.len() - 1, |writer| writer.str("known")).unwrap();
            }
            batch.set_origin_from(2, "here");
            batch.value_mut(3).unwrap();
            batch.stream(2).end();
            let mut mark = Mark::default();
            batch.mark(&mut mark);
            for one in edits {
                edit(&mut batch, one);
                let (changes, all) = (batch.validate_changes(&mark), batch.validate());
                prop_assert_eq!(changes.is_ok(), all.is_ok(), "{:?} and {:?}", changes, all);
            }
        }
    }
}
