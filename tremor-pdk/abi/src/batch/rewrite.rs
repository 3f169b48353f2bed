//! Rewriting batches: decoding, filtering, editing, encoding.

use std::ops::Range;

use super::{
    Batch, Pool, Rejected,
    bounds::{span, too_large},
    event::{Event, EventFlags, PayloadKind, Span},
    handle::EventRef,
    metadata::LastCopied,
    unedited::Format,
};
use crate::{
    ByteBuffer, NodeBuffer,
    document::{Node, ValueRef},
    error::PluginError,
    value::Value,
};

/// A payload that is a value, in one of the two forms in which a batch stores values.
#[derive(Clone, Copy)]
pub enum Payload<'b> {
    /// A value in the batch's nodes.
    Document {
        /// The bytes of the batch.
        bytes: &'b [u8],
        /// The nodes of the batch.
        nodes: &'b [Node],
        /// Index of the root node of the payload.
        root: u32,
        /// The message that the payload was decoded from, and its format, if the payload was not edited.
        unedited: Option<(Format, Span)>,
    },
    /// A value in the batch's table of edited values.
    Value(ValueRef<'b>),
}

impl Batch {
    pub(crate) fn decode_with(
        &mut self,
        mut decode: impl FnMut(&mut ByteBuffer, &mut NodeBuffer, Span) -> Result<u32, PluginError>,
    ) -> Vec<Rejected> {
        self.decode_as(|bytes, nodes, span| Ok((decode(bytes, nodes, span)?, None)))
    }

    pub(crate) fn decode_as(
        &mut self,
        mut decode: impl FnMut(
            &mut ByteBuffer,
            &mut NodeBuffer,
            Span,
        ) -> Result<(u32, Option<Format>), PluginError>,
    ) -> Vec<Rejected> {
        let mut events = std::mem::take(&mut self.events);
        let (bytes, nodes) = self.buffers_mut();
        let most = weigh(bytes.len(), nodes.len()) + Self::WEIGHT_AT_MOST;
        let mut rejected = Vec::new();
        let (mut kept, mut next) = (0, 0);
        let list = events.as_mut_slice();
        while let Some(event) = list.get_mut(next) {
            let (position, before) = (next, (bytes.len(), nodes.len()));
            next += 1;
            if event.kind == PayloadKind::RAW {
                match decode(bytes, nodes, event.payload) {
                    Ok((root, format)) => {
                        event.original = event.payload;
                        event.payload = Span { start: root, len: 0 };
                        event.kind = PayloadKind::DOCUMENT;
                        event.flags = EventFlags(format.map_or(0, |format| format as u8));
                    }
                    Err(error) => {
                        rejected.push(Rejected { event: *event, error });
                        continue;
                    }
                }
            }
            let weight = weigh(bytes.len(), nodes.len());
            let is_heavy = weight > most;
            if is_heavy
                && let Err(error) = admit(event.original, weight - weigh(before.0, before.1))
            {
                bytes.truncate(before.0);
                nodes.truncate(before.1);
                let event = event.with_payload(PayloadKind::RAW, event.original);
                rejected.push(Rejected { event, error });
                continue;
            }
            if kept < position {
                list[kept] = list[position];
            }
            kept += 1;
            if is_heavy {
                break;
            }
        }
        let left = events.len() - next;
        events.as_mut_slice().copy_within(next.., kept);
        events.truncate(kept + left);
        self.events = events;
        rejected
    }

    pub(crate) fn encode_with(
        &mut self,
        pool: &Pool,
        encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>,
    ) -> (Self, Vec<Rejected>) {
        let mut encoded = Self::from_pool(pool);
        let rejected = self.encode_into(&mut encoded, encode);
        (encoded, rejected)
    }

    pub(crate) fn encode_into(
        &mut self,
        encoded: &mut Self,
        mut encode: impl FnMut(Payload<'_>, &mut ByteBuffer) -> Result<(), PluginError>,
    ) -> Vec<Rejected> {
        let mut last_copied = LastCopied::default();
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
            let Some(span) = span(start, bytes.len().saturating_sub(start)) else {
                bytes.truncate(start);
                return Err(too_large());
            };
            let mut event = event.with_payload(PayloadKind::RAW, span);
            last_copied.adopt(&mut event, self, bytes, nodes, values);
            out.push(event);
            Ok(())
        });
        self.events = events;
        encoded.events = out;
        rejected
    }

    pub(crate) fn share_messages(
        &self,
        mut message: impl FnMut(Payload<'_>) -> Option<Range<usize>>,
    ) -> Option<Self> {
        if self.events.iter().any(|event| event.unedited().is_none()) {
            return None;
        }
        let mut shared = self.sharing_buffers();
        shared.events.reserve(self.len());
        for event in &self.events {
            let range = message(self.payload(event)?)?;
            let span = span(range.start, range.len())?;
            let mut event = event.with_payload(PayloadKind::RAW, span);
            event.original = Span::default();
            shared.events.push(event);
        }
        if !self.values.is_empty() {
            let mut last_copied = LastCopied::default();
            for event in &mut shared.events {
                last_copied.adopt_values(event, self, &mut shared.values);
            }
        }
        Some(shared)
    }

    fn payload(&self, event: &Event) -> Option<Payload<'_>> {
        match event.kind {
            PayloadKind::DOCUMENT => Some(Payload::Document {
                bytes: self.bytes(),
                nodes: self.nodes(),
                root: event.payload.start,
                unedited: event.unedited().map(|format| (format, event.original)),
            }),
            _ => self.value(event).map(Payload::Value),
        }
    }

    /// Removes the events for which `keep` returns `false`. Returns the number of removed events.
    pub fn retain(&mut self, mut keep: impl FnMut(EventRef<'_>) -> bool) -> usize {
        let mut events = std::mem::take(&mut self.events);
        let before = events.len();
        events.retain(|event| keep(EventRef::new(self, event)));
        let gone = before - events.len();
        self.events = events;
        gone
    }

    /// Returns a batch of the events in `range`, which shares the buffers of this batch.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        Self {
            events: self.events[range].into(),
            values: self.values.clone(),
            shared: self.shared.clone(),
            limit: self.limit,
            pull: self.pull,
        }
    }

    /// Returns the events at `positions` as a batch that shares the buffers of this batch, with copies of the values
    /// that belong to the events.
    pub(crate) fn pick(&self, positions: &[usize]) -> Self {
        let mut picked = self.sharing_buffers();
        picked.events.reserve(positions.len());
        let mut last_copied = LastCopied::default();
        for position in positions {
            picked.copy_event(self, self.events[*position], &mut last_copied);
        }
        picked
    }

    /// Gives each of `events` its own edited payload, so that all of them can be moved by [`Batch::take_event`]. The kit
    /// creates no events with a common payload, but a plugin may.
    pub(super) fn separate_values(&mut self, events: &mut [Event]) {
        if self.values.is_empty() {
            return;
        }
        let mut next = 0;
        for event in events.iter_mut().filter(|event| event.kind == PayloadKind::VALUE) {
            let index = event.payload.start;
            if index >= next {
                next = index.saturating_add(1);
            } else if let Some(value) = self.values.get(index as usize).cloned() {
                event.payload.start = self.keep(value) - 1;
            }
        }
    }

    /// Divides the batch, in order, into batches that share the buffers of this batch. Batch `i` has `counts[i]`
    /// events. Edited values are moved.
    pub(crate) fn divide(mut self, counts: &[usize]) -> Vec<Self> {
        let mut events = std::mem::take(&mut self.events);
        self.separate_values(&mut events);
        let mut rest = events.iter();
        let mut part = |count| {
            let (mut part, mut last_copied) = (self.sharing_buffers(), LastCopied::default());
            part.events.reserve(count);
            for event in rest.by_ref().take(count) {
                part.take_event(&mut self, *event, &mut last_copied);
            }
            part
        };
        counts.iter().map(|count| part(*count)).collect()
    }

    pub(crate) fn value_mut(&mut self, position: usize) -> Option<&mut Value<'static>> {
        let event = self.events[position];
        let index = match event.kind {
            PayloadKind::VALUE => event.payload.start,
            PayloadKind::DOCUMENT => {
                let value = self.value(&event)?.to_value();
                let index = self.keep(value) - 1;
                self.events[position].set_value(index);
                index
            }
            _ => return None,
        };
        self.values.get_mut(index as usize)
    }
}

/// Returns the memory of `bytes` bytes and `nodes` nodes, in bytes.
#[inline]
fn weigh(bytes: usize, nodes: usize) -> usize {
    bytes + nodes * size_of::<Node>()
}

/// Returns an error if `taken`, the size in bytes of the decoded form of `message`, exceeds [`Batch::decoded_at_most`].
#[cold]
pub(super) fn admit(message: Span, taken: usize) -> Result<(), PluginError> {
    let most = Batch::decoded_at_most(message.len as usize);
    if taken <= most {
        return Ok(());
    }
    Err(PluginError::bad_data(format_args!(
        "the decoded message takes {taken} bytes of memory, and the limit is {most} for a message of {} \
         bytes",
        message.len
    )))
}

/// Calls `step` for each event. Removes and returns the events for which `step` fails.
fn sift(
    events: &mut abi_stable::std_types::RVec<Event>,
    mut step: impl FnMut(&Event) -> Result<(), PluginError>,
) -> Vec<Rejected> {
    let mut rejected = Vec::new();
    let mut kept = 0;
    let list = events.as_mut_slice();
    for position in 0..list.len() {
        if let Err(error) = step(&list[position]) {
            rejected.push(Rejected { event: list[position], error });
            continue;
        }
        // An event moves only if an earlier event was removed.
        if kept < position {
            list[kept] = list[position];
        }
        kept += 1;
    }
    events.truncate(kept);
    rejected
}
