//! Turning one batch into another: cutting, decoding, filtering, editing, encoding.

use std::ops::Range;

use super::{
    Batch, Pool, Rejected,
    event::{Event, EventFlags, PayloadKind, Span},
    fill::narrow,
    metadata::Kept,
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Node, ValueRef},
    error::PluginError,
    value::Value,
};

/// A payload that is a value, as it lies in its batch.
#[derive(Clone, Copy)]
pub enum Payload<'b> {
    /// A part of the batch's document.
    Document {
        /// All bytes of the batch.
        bytes: &'b [u8],
        /// All nodes of the batch.
        nodes: &'b [Node],
        /// The index of the payload's root.
        root: u32,
    },
    /// A value of its own.
    Value(ValueRef<'b>),
}

/// What a preprocessor writes its messages to; see [`Batch::cut`].
pub struct Cutter<'b> {
    bytes: &'b mut ByteBuffer,
    events: &'b mut abi_stable::std_types::RVec<Event>,
    rejected: &'b mut Vec<Rejected>,
    template: Event,
}

impl Cutter<'_> {
    /// The bytes of the event that is being cut.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.template.payload.range()).unwrap_or_default()
    }

    /// The event that is being cut.
    #[inline]
    pub fn event(&self) -> &Event {
        &self.template
    }

    /// Emits a range of [`Cutter::payload`] as a message, without a copy.
    #[inline]
    pub fn emit(&mut self, range: Range<usize>) {
        let start = self.template.payload.start + narrow(range.start);
        let span = Span { start, len: narrow(range.len()) };
        self.events.push(self.template.with_payload(PayloadKind::RAW, span));
    }

    /// Emits a message that is `head` followed by a range of [`Cutter::payload`].
    pub fn emit_joined(&mut self, head: &[u8], range: Range<usize>) {
        let start = self.bytes.len();
        let from = self.template.payload.start as usize;
        self.bytes.reserve(head.len() + range.len());
        self.bytes.extend_from_copy_slice(head);
        self.bytes.extend_from_copy_within(from + range.start..from + range.end);
        let span = Span { start: narrow(start), len: narrow(self.bytes.len() - start) };
        self.events.push(self.template.with_payload(PayloadKind::RAW, span));
    }

    /// Emits a message that is [`Cutter::payload`] followed by `tail`.
    pub fn emit_followed(&mut self, tail: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_copy_within(self.template.payload.range());
        self.bytes.extend_from_copy_slice(tail);
        let span = Span { start: narrow(start), len: narrow(self.bytes.len() - start) };
        self.events.push(self.template.with_payload(PayloadKind::RAW, span));
    }

    /// Emits bytes that are not in the payload as a part of a byte stream: the next of that stream
    /// goes on where they end.
    pub fn emit_fragment(&mut self, bytes: &[u8]) {
        let span = Span { start: narrow(self.bytes.len()), len: narrow(bytes.len()) };
        self.bytes.extend_from_copy_slice(bytes);
        let mut event = self.template.with_payload(PayloadKind::RAW, span);
        event.flags = EventFlags::FRAGMENT;
        self.events.push(event);
    }

    /// Hands the event on as it is.
    pub fn pass(&mut self) {
        self.events.push(self.template);
    }

    /// Rejects a message; `shown` is the part of it that the dead letter carries.
    pub fn reject(&mut self, shown: &[u8], error: PluginError) {
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(shown);
        let span = Span { start: narrow(start), len: narrow(shown.len()) };
        let event = self.template.with_payload(PayloadKind::RAW, span);
        self.rejected.push(Rejected { event, error });
    }
}

/// `RVec` has no `extend_from_within`.
trait ExtendFromCopyWithin {
    fn extend_from_copy_within(&mut self, range: Range<usize>);
}

impl ExtendFromCopyWithin for ByteBuffer {
    fn extend_from_copy_within(&mut self, range: Range<usize>) {
        let start = self.len();
        self.resize(start + range.len(), 0);
        let (old, new) = self.split_at_mut(start);
        new.copy_from_slice(&old[range]);
    }
}

impl Batch {
    /// Runs a preprocessor over the batch: `cut` sees every event once and emits what is to stand
    /// in its place. What it rejects is returned.
    pub fn cut(&mut self, mut cut: impl FnMut(&mut Cutter<'_>)) -> Vec<Rejected> {
        let mut rejected = Vec::new();
        let mut events = std::mem::take(&mut self.events);
        let scratch = self.shared.storage_mut().map(|s| std::mem::take(&mut s.scratch_events));
        let mut out = scratch.unwrap_or_default();
        let (bytes, _) = self.buffers_mut();
        for event in &events {
            cut(&mut Cutter { bytes, events: &mut out, rejected: &mut rejected, template: *event });
        }
        self.events = out;
        events.clear();
        if let Some(storage) = self.shared.storage_mut() {
            storage.scratch_events = events;
        }
        rejected
    }

    /// Decodes every raw payload: `decode` appends a document to the buffers and returns its root.
    /// Events that it fails on are taken out and returned.
    pub fn decode_with(
        &mut self,
        mut decode: impl FnMut(&mut ByteBuffer, &mut NodeBuffer, Span) -> Result<u32, PluginError>,
    ) -> Vec<Rejected> {
        let mut events = std::mem::take(&mut self.events);
        let (bytes, nodes) = self.buffers_mut();
        let rejected = sift(&mut events, |event| {
            if event.kind == PayloadKind::RAW {
                let root = decode(bytes, nodes, event.payload)?;
                event.original = event.payload;
                event.payload = Span { start: root, len: 0 };
                event.kind = PayloadKind::DOCUMENT;
                event.flags = EventFlags(0);
            }
            Ok(())
        });
        self.events = events;
        rejected
    }

    /// Encodes every value into the buffer of a new batch with the same events in the same order,
    /// metadata and origins included.
    /// Events that `encode` fails on are taken out of both and returned.
    pub fn encode_with(
        &mut self,
        pool: &Pool,
        encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>,
    ) -> (Self, Vec<Rejected>) {
        let mut encoded = Self::from_pool(pool);
        let rejected = self.encode_into(&mut encoded, encode);
        (encoded, rejected)
    }

    /// As [`Batch::encode_with`], into a batch that is empty.
    pub fn encode_into(
        &mut self,
        encoded: &mut Self,
        mut encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>,
    ) -> Vec<Rejected> {
        let mut kept = Kept::default();
        let mut events = std::mem::take(&mut self.events);
        let mut out = std::mem::take(&mut encoded.events);
        let (bytes, nodes, values) = encoded.parts_mut();
        let rejected = sift(&mut events, |event| {
            let start = bytes.len();
            let Some(payload) = self.payload(event) else {
                return Err(PluginError::bad_data("the event has no value to encode"));
            };
            if let Err(error) = encode(payload, bytes) {
                bytes.truncate(start);
                return Err(error);
            }
            let span = Span { start: narrow(start), len: narrow(bytes.len() - start) };
            let mut event = event.with_payload(PayloadKind::RAW, span);
            kept.adopt(&mut event, self, bytes, nodes, values);
            out.push(event);
            Ok(())
        });
        self.events = events;
        encoded.events = out;
        rejected
    }

    fn payload(&self, event: &Event) -> Option<Payload<'_>> {
        match event.kind {
            PayloadKind::DOCUMENT => Some(Payload::Document {
                bytes: self.bytes(),
                nodes: self.nodes(),
                root: event.payload.start,
            }),
            _ => self.value(event).map(Payload::Value),
        }
    }

    /// Keeps the events that `keep` wants; says how many went.
    pub fn retain(&mut self, mut keep: impl FnMut(&Self, &Event) -> bool) -> usize {
        let mut events = std::mem::take(&mut self.events);
        let before = events.len();
        events.retain(|event| keep(self, event));
        let gone = before - events.len();
        self.events = events;
        gone
    }

    /// A batch of some of this one's events, sharing its buffers.
    ///
    /// # Panics
    /// Where the range is out of bounds.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        Self {
            events: self.events[range].into(),
            values: self.values.clone(),
            shared: self.shared.clone(),
            limit: self.limit,
        }
    }

    /// The payload of the event at `position`, to edit. The first edit turns this event, and no
    /// other, from a part of the document into a value of its own. `None` where the payload is
    /// raw or there is none.
    ///
    /// # Panics
    /// Where there is no such event.
    pub fn value_mut(&mut self, position: usize) -> Option<&mut Value<'static>> {
        let event = self.events[position];
        let index = match event.kind {
            PayloadKind::VALUE => event.payload.start,
            PayloadKind::DOCUMENT => {
                let value = self.value(&event)?.to_value();
                let index = self.keep(value) - 1;
                let event = &mut self.events[position];
                event.kind = PayloadKind::VALUE;
                event.payload = Span { start: index, len: 0 };
                index
            }
            _ => return None,
        };
        self.values.get_mut(index as usize)
    }
}

/// Runs `step` over the events and takes out those it fails on.
fn sift(
    events: &mut abi_stable::std_types::RVec<Event>,
    mut step: impl FnMut(&mut Event) -> Result<(), PluginError>,
) -> Vec<Rejected> {
    let mut rejected = Vec::new();
    let mut kept = 0;
    for position in 0..events.len() {
        let mut event = events[position];
        match step(&mut event) {
            Ok(()) => {
                events[kept] = event;
                kept += 1;
            }
            Err(error) => rejected.push(Rejected { event, error }),
        }
    }
    events.truncate(kept);
    rejected
}
