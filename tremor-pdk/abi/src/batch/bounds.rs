//! How much a batch holds at most.

use super::{Batch, Event, PayloadKind, event::Span, metadata::Kept, storage::Shared};
use crate::{
    document::{Budget, Node},
    error::PluginError,
    value::Value,
};

impl Batch {
    /// How much a batch of several events should weigh at most
    /// ([`HostBatch::weight`](super::HostBatch::weight)), in bytes. A step that makes much of little stops when a batch weighs more, and goes on in another one.
    ///
    /// It is a few times what a pull brings, so that ordinary batches never meet it; half of what a
    /// pool keeps of a batch, whose buffers have up to twice the capacity that they need; and half
    /// of what a queue holds, so that one batch is made while another one waits.
    pub const WEIGHT_AT_MOST: usize = 2 << 20;

    /// What an event may always weigh when it is decoded; see [`Batch::decoded_at_most`].
    pub const EVENT_AT_MOST: usize = Budget::MIN;

    /// How much a message of so many bytes may become when it is decoded, in bytes of text and
    /// nodes: 16 MiB, or four times the message where that is more. Whoever lets larger messages in
    /// lets larger events in, and few bytes never become many.
    pub const fn decoded_at_most(message: usize) -> usize {
        Budget::limit_for(message)
    }

    pub(crate) fn weight(&self) -> usize {
        self.flat_weight() + self.values.iter().map(Value::weight).sum::<usize>()
    }

    /// The same without edited values.
    pub(super) fn flat_weight(&self) -> usize {
        let storage = self.shared.storage();
        storage.bytes.len()
            + storage.nodes.len() * size_of::<Node>()
            + self.events.len() * size_of::<Event>()
    }

    pub(crate) fn is_heavy(&self) -> bool {
        self.weight() > Self::WEIGHT_AT_MOST
    }

    pub(crate) fn weight_of(&self, event: &Event) -> usize {
        let original = self.original(event).len();
        let payload = match event.kind {
            PayloadKind::DOCUMENT => {
                let (nodes, data) = self.document_size(event.payload.start);
                // Mostly the text lies where it was decoded from.
                nodes + data.max(original)
            }
            PayloadKind::VALUE => {
                let value = self.values.get(event.payload.start as usize);
                original + value.map_or(0, Value::weight)
            }
            _ => original,
        };
        size_of::<Event>() + payload
    }

    pub(crate) fn shed(&mut self) {
        if !self.is_heavy() {
            return;
        }
        let used: usize = self.events.iter().map(|event| self.weight_of(event)).sum();
        // What is copied must have offsets of 32 bits.
        if self.weight() / 2 > used && used < MOST_COPIED {
            let (old, limit) = (std::mem::take(self), self.limit);
            self.append(old);
            self.limit = limit;
        }
    }

    pub(crate) fn held(&self) -> usize {
        let values = self.values.iter().map(Value::weight).sum::<usize>();
        self.shared.held() + self.events.len() * size_of::<Event>() + values
    }

    pub(crate) fn footprint(&self) -> usize {
        let values = self.values.iter().map(Value::weight).sum::<usize>();
        size_of::<Self>()
            + self.shared.footprint()
            + self.events.capacity() * size_of::<Event>()
            + (self.values.capacity() - self.values.len()) * size_of::<Value>()
            + values
    }

    pub(crate) fn let_go(&mut self) {
        let used: usize = self.events.iter().map(|event| self.weight_of(event)).sum();
        // What is copied must have offsets of 32 bits.
        if self.held() / 2 > used && used < MOST_COPIED {
            let (events, pull) = (std::mem::take(&mut self.events), self.pull);
            *self = self.detached(&events);
            self.pull = pull;
        }
    }

    pub(crate) fn take_undecoded(&mut self) -> Option<Self> {
        if self.flat_weight() <= Self::WEIGHT_AT_MOST {
            return None;
        }
        let raw = |event: &Event| event.kind == PayloadKind::RAW;
        let first = self.events.iter().position(raw)?;
        let left = std::mem::take(&mut self.events);
        let rest = self.detached(&left[first..]);
        self.events = left;
        self.events.truncate(first);
        Some(rest)
    }

    /// Some of the batch's events with buffers of their own; edited payloads are moved out.
    pub(super) fn detached(&mut self, events: &[Event]) -> Self {
        let mut shared = self.sharing_buffers();
        let mut kept = Kept::default();
        for event in events {
            shared.take_event(self, *event, &mut kept);
        }
        let mut own = Self::on(Shared::unpooled());
        own.append(shared);
        own.limit = self.limit;
        own
    }
}

/// More than this is not copied to save memory, in bytes.
const MOST_COPIED: usize = 1 << 30;

/// A range of a batch's bytes; none beyond 4 GiB.
#[inline]
#[allow(clippy::cast_possible_truncation)] // neither is more than the end
pub(super) fn span(start: usize, len: usize) -> Option<Span> {
    let end = start.checked_add(len)?;
    u32::try_from(end).is_ok().then_some(Span { start: start as u32, len: len as u32 })
}

/// There is no room for an event.
#[cold]
pub(super) fn no_room() -> PluginError {
    PluginError::bad_data("with it, its batch would have more than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::Batch;
    use crate::{batch::Span, document::Node, error::PluginError, literal};

    #[test]
    fn edited_values_weigh_what_they_take() {
        let mut batch = Batch::new();
        batch.push(&literal!({ "a": "text" })).unwrap();
        let before = batch.weight();
        *batch.value_mut(0).unwrap() = literal!({ "a": "x".repeat(1 << 20) });
        let weight = batch.weight() - before;
        assert!((1 << 20..(1 << 20) + 1_000).contains(&weight), "{weight}");
        assert!(!batch.is_heavy());
        batch.set_metadata(0, literal!(["y".repeat(1 << 20)]));
        assert!(batch.is_heavy());
        let payload = batch.weight_of(&batch.events()[0]);
        assert!((1 << 20..(1 << 20) + 1_000).contains(&payload), "{payload}");
    }

    #[test]
    fn footprint_counts_buffers_and_containers() {
        let mut batch = Batch::new();
        let empty = batch.footprint();
        assert!(empty >= size_of::<Batch>(), "{empty}");
        batch.push_message(&vec![b'x'; 1 << 20]);
        batch.retain(|_| false);
        batch.stream(1).push_message(b"small");
        let footprint = batch.footprint();
        assert!(footprint > empty + (1 << 20), "the unused bytes stay: {footprint}");
        let clone = batch.clone();
        assert_eq!(clone.footprint() >> 10, footprint >> 10, "a shared buffer counts in full");
    }

    /// A decoder that makes `count` nodes of every message.
    fn nodes_of(
        count: usize,
    ) -> impl FnMut(&mut crate::ByteBuffer, &mut crate::NodeBuffer, Span) -> Result<u32, PluginError>
    {
        move |_, nodes, _| {
            let root = u32::try_from(nodes.len()).unwrap();
            nodes.push(Node::array(u32::try_from(count - 1).unwrap(), count as u64));
            nodes.resize(nodes.len() + count - 1, Node::null());
            Ok(root)
        }
    }

    #[test]
    fn decoding_stops_when_a_batch_is_heavy_and_the_rest_comes_in_others() {
        let mut batch = Batch::new();
        for number in 0..10 {
            batch.stream(number).push_message(b"message");
            batch.set_origin_from(batch.len() - 1, "here");
        }
        batch.stream(9).end();
        let (mut streams, mut batches) = (Vec::new(), 0);
        let mut next = Some(batch);
        while let Some(mut batch) = next {
            assert!(batch.decode_with(nodes_of(50_000)).is_empty());
            next = batch.take_undecoded();
            batches += 1;
            assert!(batch.weight() < Batch::WEIGHT_AT_MOST + 1_000_000, "{batch:?}");
            let here = |event| batch.origin(event) == Some("here") || event.is_stream_end();
            assert!(batch.events().iter().all(here));
            batch.validate().unwrap();
            streams.extend(batch.events().iter().map(|event| event.stream));
        }
        assert_eq!(streams, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
        assert_eq!(batches, 4, "three of 800 kB in each");
    }

    #[test]
    fn an_event_that_becomes_too_much_is_rejected_and_leaves_nothing() {
        let mut batch = Batch::new();
        batch.push_message(b"small");
        batch.stream(1).push_message(b"a bomb");
        batch.stream(2).push_message(b"small");
        let most = Batch::EVENT_AT_MOST / size_of::<Node>();
        let mut calls = 0;
        let rejected = batch.decode_with(|bytes, nodes, span| {
            calls += 1;
            nodes_of(if calls == 2 { most + 1 } else { 2 })(bytes, nodes, span)
        });
        assert_eq!((batch.len(), batch.nodes().len()), (2, 4));
        let [rejected] = &rejected[..] else { panic!("{rejected:?}") };
        assert_eq!(rejected.event.stream, 1);
        let message = rejected.error.to_string();
        assert!(message.starts_with("decoded, it takes 16777232 bytes of memory"), "{message}");
        assert_eq!(Batch::decoded_at_most(5 << 20), 20 << 20);
    }

    #[test]
    fn what_no_event_refers_to_is_given_up() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 3 << 20]);
        batch.stream(1).push_message(b"kept");
        batch.shed();
        assert!(batch.is_heavy(), "all of it is used");
        batch.retain(|event| event.stream().number() == 1);
        batch.shed();
        assert_eq!((batch.bytes(), batch.len()), (&b"kept"[..], 1));
    }

    #[test]
    fn shares_of_buffers_come_to_the_whole_and_the_last_one_keeps_all_until_it_lets_go() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 1 << 20]);
        batch.push_message(b"small");
        batch.stream(1).push(&literal!({ "an": "edited value" })).unwrap();
        *batch.value_mut(2).unwrap() = literal!(["y".repeat(1 << 20)]);
        batch.set_origin("here");
        batch.set_pull(7);
        let all = batch.held();
        assert!(all > 2 << 20, "{all}");
        let mut small = batch.pick(&[1]);
        let both = batch.held() + small.held();
        assert!(both.abs_diff(all) < 1_000, "the edited value is no share: {both}, {all}");
        batch.let_go();
        assert_eq!(batch.bytes().len(), small.bytes().len(), "it has most of it");
        drop(batch);
        assert!(small.held() > 1 << 20);
        small.let_go();
        assert!(small.held() < 1_000, "{}", small.held());
        let event = small.events()[0];
        let seen = (small.raw(&event), small.origin(&event), small.pull());
        assert_eq!(seen, (Some(&b"small"[..]), Some("here"), 7));
        small.validate().unwrap();
    }
}
