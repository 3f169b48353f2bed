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
use crate::{
    document::{Budget, Reason, Validator},
    error::PluginError,
    value::Value,
};

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
        let mut check = Check::new(self, 0);
        let (bytes, values) = (self.bytes().len(), self.values.len());
        for (position, event) in self.events().iter().enumerate() {
            let is_plain_message = event.kind == PayloadKind::RAW
                && event.payload.range().end <= bytes
                && event.original.word() == 0
                && event.origin as usize <= values
                && event.metadata == 0;
            if !is_plain_message || !check.documents.budget.spend(event.payload.len.into()) {
                check.event(position, event)?;
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
        let mut expected: &[Event] = if same { &mark.events } else { &[] };
        let mut check = Check::new(self, mark.bytes);
        for (position, event) in self.events().iter().enumerate() {
            // Events mostly keep their order, so the one looked for is mostly the next one. An event of
            // the mark is known once: a second one with the same payload is checked, because it counts
            // towards the budget.
            let old = match expected.split_first() {
                Some((old, rest)) if event.has_payload_of(old) => {
                    expected = rest;
                    Some(old)
                }
                _ => find(expected, event).map(|at| {
                    let old = &expected[at];
                    expected = &expected[at + 1..];
                    old
                }),
            };
            let Some(old) = old.filter(|old| self.has_origin_of(event, old)) else {
                check.event(position, event)?;
                continue;
            };
            let is_sound = event.metadata == 0
                || event.metadata_root().is_some_and(|root| {
                    event.metadata == old.metadata || check.documents.is_flat(nodes, root)
                });
            if !is_sound {
                check.metadata(position, event)?;
            }
        }
        Ok(())
    }

    /// Returns whether the origin of an event is a value of the batch, or in its nodes the one that a known
    /// event had.
    #[inline]
    fn has_origin_of(&self, event: &Event, old: &Event) -> bool {
        event.origin as usize <= self.values.len()
            || (event.origin == old.origin && event.origin_root().is_some())
    }

    fn has_value(&self, position: u32) -> bool {
        (position as usize) < self.values.len()
    }
}

/// The check of one batch, event by event.
struct Check<'b> {
    batch: &'b Batch,
    documents: Validator<'b>,
    /// The metadata and the origin that were found valid last. Neighbours mostly have the same, which are
    /// copied once for all of them, so that they count once.
    metadata: u32,
    origin: u32,
    /// Positions after the last payload and the last metadata in the values. Values before them may belong to
    /// several events, and count for each of these.
    payloads: u32,
    metadata_values: u32,
}

impl<'b> Check<'b> {
    /// Returns a check for documents of which the text mostly lies after the first `old` bytes.
    fn new(batch: &'b Batch, old: usize) -> Self {
        // A batch without nodes has no documents, so its bytes need not be examined.
        let old = if batch.nodes().is_empty() { batch.bytes().len() } else { old };
        let documents = Validator::new(batch.bytes(), old, Budget::new(batch.flat_weight()));
        Self { batch, documents, metadata: 0, origin: 0, payloads: 0, metadata_values: 0 }
    }

    #[inline(never)]
    fn event(&mut self, position: usize, event: &Event) -> Result<(), PluginError> {
        let batch = self.batch;
        let bytes = batch.bytes().len();
        match event.kind {
            PayloadKind::NONE => {}
            PayloadKind::RAW if event.payload.range().end <= bytes => {
                self.spend(position, event.payload.len.into())?;
            }
            PayloadKind::RAW => {
                return Err(forged(position, "refers to bytes outside of the batch"));
            }
            PayloadKind::DOCUMENT => self.document(position, event.payload.start, "is")?,
            PayloadKind::VALUE if batch.has_value(event.payload.start) => {
                let is_shared = is_before(event.payload.start, &mut self.payloads);
                self.value(position, event.payload.start, is_shared)?;
            }
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
        self.spend(position, event.original.len.into())?;
        if event.origin != self.origin {
            self.origin(position, event)?;
            self.origin = event.origin;
        }
        self.metadata(position, event)
    }

    fn origin(&mut self, position: usize, event: &Event) -> Result<(), PluginError> {
        if let Some(root) = event.origin_root() {
            self.document(position, root, "has an origin that is")?;
            if self.batch.origin(event).is_none() {
                return Err(forged(position, "has an origin that is not text"));
            }
        } else if event.origin_value().is_some_and(|origin| !self.batch.has_value(origin)) {
            return Err(forged(position, "refers to an origin outside of the batch"));
        }
        let text = self.batch.origin(event).map_or(0, str::len);
        self.spend(position, text as u64)
    }

    #[inline(never)]
    fn metadata(&mut self, position: usize, event: &Event) -> Result<(), PluginError> {
        if event.metadata == self.metadata {
            return Ok(());
        }
        if let Some(root) = event.metadata_root() {
            self.document(position, root, "has metadata that is")?;
        }
        if let Some(metadata) = event.metadata_value() {
            if !self.batch.has_value(metadata) {
                return Err(forged(position, "refers to metadata outside of the batch"));
            }
            let is_shared = is_before(metadata, &mut self.metadata_values);
            self.value(position, metadata, is_shared)?;
        }
        self.metadata = event.metadata;
        Ok(())
    }

    #[inline]
    fn document(&mut self, position: usize, root: u32, what: &str) -> Result<(), PluginError> {
        self.documents.validate(self.batch.nodes(), root).map_err(|invalid| {
            if invalid.reason == Reason::Budget {
                return self.exceeded(position);
            }
            forged(position, format_args!("{what} an {invalid}"))
        })
    }

    /// Counts a value that several events may have. Others take no more than the batch.
    fn value(&mut self, position: usize, index: u32, is_shared: bool) -> Result<(), PluginError> {
        let value = self.batch.values.get(index as usize).filter(|_| is_shared);
        self.spend(position, value.map_or(0, Value::weight) as u64)
    }

    #[inline]
    fn spend(&mut self, position: usize, bytes: u64) -> Result<(), PluginError> {
        if self.documents.budget.spend(bytes) { Ok(()) } else { Err(self.exceeded(position)) }
    }

    #[cold]
    fn exceeded(&self, position: usize) -> PluginError {
        let limit = self.documents.budget.limit();
        forged(
            position,
            format_args!(
                "exceeds the limit of {limit} bytes for the values and bytes that its events refer \
                 to, which count for each event: put the events out in several batches, or let \
                 fewer of them refer to the same value"
            ),
        )
    }
}

/// Returns whether a value lies before `end`, and otherwise moves `end` after it.
fn is_before(index: u32, end: &mut u32) -> bool {
    let is_before = index < *end;
    if !is_before {
        *end = index + 1;
    }
    is_before
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
mod tests;
