//! The weight of batches and events in bytes, and its limits.

use std::borrow::Cow;

use super::{
    Batch, Event, PayloadKind,
    event::{Location, Span},
    metadata::LastCopied,
    storage::Shared,
};
use crate::{
    document::{Budget, Node},
    error::PluginError,
    value::Value,
};

impl Batch {
    /// Maximum weight of a batch of several events in bytes, as measured by
    /// [`HostBatch::weight`](super::HostBatch::weight). A processor or codec that expands its input stops when its
    /// batch exceeds this weight, and continues in another batch.
    ///
    /// This limit is a few times the default limit of a pull, so that ordinary batches never reach it. The limit is
    /// half of the largest storage that a pool recycles, because buffers have up to twice the required capacity, and
    /// half of the limit of a queue, so that one batch can be produced while another batch waits.
    pub const WEIGHT_AT_MOST: usize = 2 << 20;

    /// Maximum size of the decoded form of a short message, in bytes. Longer messages have a higher limit: see
    /// [`Batch::decoded_at_most`].
    pub const EVENT_AT_MOST: usize = Budget::MIN;

    /// Returns the maximum size of the decoded form of a message of `message` bytes, in bytes of text and nodes: 16
    /// MiB, or four times `message` if that is more. Therefore a flow that accepts larger messages accepts larger
    /// events, but a small message cannot become a huge event.
    pub const fn decoded_at_most(message: usize) -> usize {
        Budget::limit_for(message)
    }

    /// Returns the number of bytes by which a component may enlarge the events of the batch in total: see
    /// [`Batch::decoded_at_most`].
    pub fn growth_at_most(&self) -> usize {
        let weight = self.weight();
        Self::decoded_at_most(weight).saturating_sub(weight)
    }

    pub(crate) fn output_at_most(&self) -> usize {
        (64 << 20).max(self.weight().saturating_mul(8))
    }

    pub(crate) fn weight(&self) -> usize {
        self.flat_weight() + self.values.iter().map(Value::weight).sum::<usize>()
    }

    /// Returns the weight without edited values.
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
                // Usually the text is a part of the original bytes.
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

    pub(crate) fn compact_if_large(&mut self) {
        if self.is_heavy() {
            self.compact_sparse();
        }
    }

    pub(crate) fn compact_if_grown(&mut self, limit: &mut usize) {
        let weight = self.flat_weight();
        if weight <= *limit {
            return;
        }
        if *limit > 0 {
            self.compact_sparse();
        }
        *limit = self.flat_weight().saturating_mul(2);
    }

    pub(crate) fn compact_sparse(&mut self) {
        self.compact_if_below(self.weight() / 2);
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        let values = self.values.iter().map(Value::weight).sum::<usize>();
        self.shared.retained_bytes() + self.events.len() * size_of::<Event>() + values
    }

    pub(crate) fn footprint(&self) -> usize {
        let values = self.values.iter().map(Value::weight).sum::<usize>();
        size_of::<Self>()
            + self.shared.footprint()
            + self.events.capacity() * size_of::<Event>()
            + (self.values.capacity() - self.values.len()) * size_of::<Value>()
            + values
    }

    pub(crate) fn compact(&mut self) {
        self.compact_if_below(self.retained_bytes() / 2);
    }

    /// Copies the contents of the events to separate buffers, if the events use less than `bytes` bytes.
    pub(super) fn compact_if_below(&mut self, bytes: usize) {
        let used = self.copied_bytes();
        // Offsets in the copy must fit into 32 bits.
        if used < bytes.min(MAX_COPIED_BYTES) {
            let (events, pull) = (std::mem::take(&mut self.events), self.pull);
            *self = self.detached(&events);
            self.pull = pull;
        }
    }

    /// Returns the bytes that a copy of all events takes. Consecutive events with the same metadata or origin share a
    /// copy of it.
    fn copied_bytes(&self) -> usize {
        let located = |location| match location {
            Location::None => 0,
            Location::Value(index) => self.values.get(index as usize).map_or(0, Value::weight),
            Location::Document(root) => {
                let (nodes, data) = self.document_size(root);
                nodes + data
            }
        };
        let (mut metadata, mut origin) = (0, 0);
        let size = |event: &Event| {
            let mut size = self.weight_of(event);
            if event.locations() != 0 {
                for (word, last) in [(event.metadata, &mut metadata), (event.origin, &mut origin)] {
                    if word != 0 && word != *last {
                        size += located(Location::new(word));
                        *last = word;
                    }
                }
            }
            size
        };
        self.events.iter().map(size).fold(0, usize::saturating_add)
    }

    /// Returns the weight without the buffers.
    pub(crate) fn weight_without_buffers(&self) -> usize {
        self.events.len() * size_of::<Event>()
            + self.values.iter().map(Value::weight).sum::<usize>()
    }

    pub(crate) fn has_buffers_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.shared.storage(), other.shared.storage())
    }

    pub(crate) fn shares_buffers(&self) -> bool {
        !self.shared.is_unique()
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

    /// Copies `events`, which are events of this batch, to a new batch with separate buffers. Edited payloads are moved
    /// out of this batch instead of copied.
    pub(super) fn detached(&mut self, events: &[Event]) -> Self {
        let mut shared = self.sharing_buffers();
        let mut last_copied = LastCopied::default();
        let mut events = Cow::Borrowed(events);
        if !self.values.is_empty() {
            self.separate_values(events.to_mut());
        }
        for event in events.iter() {
            shared.take_event(self, *event, &mut last_copied);
        }
        let mut own = Self::on(Shared::unpooled());
        own.append(shared);
        own.limit = self.limit;
        own
    }
}

/// Maximum number of bytes that are copied to release larger buffers.
const MAX_COPIED_BYTES: usize = 1 << 30;

/// Returns a range of a batch's bytes, or `None` if the range ends beyond 4 GiB.
#[inline]
#[allow(clippy::cast_possible_truncation)] // `start` and `len` are at most `end`, which fits
pub(super) fn span(start: usize, len: usize) -> Option<Span> {
    let end = start.checked_add(len)?;
    u32::try_from(end).is_ok().then_some(Span { start: start as u32, len: len as u32 })
}

/// Returns the error for an event whose batch would exceed 4 GiB.
#[cold]
pub(super) fn too_large() -> PluginError {
    PluginError::bad_data("cannot add the event: its batch would exceed 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::Batch;
    use crate::{batch::Span, document::Node, error::PluginError, literal};

    #[test]
    fn edited_values_count_towards_weight() {
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

    /// Returns a decoder that creates `count` nodes for every message.
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
    fn decoding_of_heavy_batch_continues_in_others() {
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
        assert_eq!(batches, 4, "three messages of 800 kB in each batch");
    }

    #[test]
    fn oversized_decoded_event_is_rejected_and_leaves_no_nodes() {
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
        assert!(
            message.starts_with("the decoded message takes 16777232 bytes of memory"),
            "{message}"
        );
        assert_eq!(Batch::decoded_at_most(5 << 20), 20 << 20);
    }

    #[test]
    fn unreferenced_bytes_are_released() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 3 << 20]);
        batch.stream(1).push_message(b"kept");
        batch.compact_if_large();
        assert!(batch.is_heavy(), "the events use all bytes");
        batch.retain(|event| event.stream().number() == 1);
        batch.compact_if_large();
        assert_eq!((batch.bytes(), batch.len()), (&b"kept"[..], 1));
    }

    /// The kit creates no such events, but a plugin may.
    #[test]
    fn events_with_a_common_payload_keep_it() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 1 << 10]);
        batch.stream(1).push(&1).unwrap();
        *batch.value_mut(1).unwrap() = literal!({ "edited": "text" });
        batch.events.push(batch.events[1]);
        batch.events.remove(0);
        let seen = |batch: &Batch| -> Vec<String> {
            batch.iter().map(|event| event.value().unwrap().to_string()).collect()
        };
        let parts = batch.clone().divide(&[1, 1]);
        batch.compact_sparse();
        assert_eq!(batch.bytes().len(), 0, "the batch was copied");
        assert_eq!(seen(&batch), [r#"{"edited":"text"}"#; 2]);
        assert_eq!(parts.iter().flat_map(seen).collect::<Vec<_>>(), seen(&batch));
    }

    /// A copy would repeat the metadata, because only that of consecutive events is copied once.
    #[test]
    fn batch_that_a_copy_would_enlarge_is_not_copied() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 8 << 10]);
        for _ in 0..100 {
            batch.push_message(b"x");
        }
        for position in [1, 2] {
            batch.write_metadata(position, |writer| writer.str(&"m".repeat(1 << 10))).unwrap();
        }
        batch.events.remove(0);
        for position in 2..100 {
            batch.events[position].metadata = batch.events[position % 2].metadata;
        }
        let before = batch.bytes().len();
        batch.compact_sparse();
        assert_eq!(batch.bytes().len(), before);
    }

    #[test]
    fn shares_of_buffers_add_up_and_last_batch_retains_all() {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; 1 << 20]);
        batch.push_message(b"small");
        batch.stream(1).push(&literal!({ "an": "edited value" })).unwrap();
        *batch.value_mut(2).unwrap() = literal!(["y".repeat(1 << 20)]);
        batch.set_origin("here");
        batch.set_pull(7);
        let all = batch.retained_bytes();
        assert!(all > 2 << 20, "{all}");
        let mut small = batch.pick(&[1]);
        let both = batch.retained_bytes() + small.retained_bytes();
        assert!(
            both.abs_diff(all) < 1_000,
            "the edited value is not counted as a share: {both}, {all}"
        );
        batch.compact();
        assert_eq!(batch.bytes().len(), small.bytes().len(), "the batch uses most of the buffer");
        drop(batch);
        assert!(small.retained_bytes() > 1 << 20);
        small.compact();
        assert!(small.retained_bytes() < 1_000, "{}", small.retained_bytes());
        let event = small.events()[0];
        let seen = (small.raw(&event), small.origin(&event), small.pull());
        assert_eq!(seen, (Some(&b"small"[..]), Some("here"), 7));
        small.validate().unwrap();
    }
}
