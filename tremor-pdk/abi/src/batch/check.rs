//! Validation of a batch that a plugin has filled or changed.
//!
//! An invalid batch is a bug of the plugin that created it. The validation detects the bug in the call in which it
//! occurs, and its error names the event.
//!
//! Memory safety does not depend on the validation: reads stay within the buffers of a batch, whatever the buffers
//! contain, and bytes are used as text only after a check that they are UTF-8 ([`document`](crate::document)). An
//! invalid batch that the validation does not detect can only result in wrong values. Contents that were valid before a
//! call are not validated again, because the code of the kit only appends to buffers. Other code of a plugin can
//! overwrite these contents, with `unsafe` or in a decoder, which receives the whole buffers. The same holds for the parts
//! of an edited document that equal those of its original.

use super::{Batch, Claims, Event, PayloadKind};
use crate::{
    document::{Budget, Invalid, Reason, Validator},
    error::PluginError,
    value::Value,
};

/// A record of the contents of a batch before a plugin edits the batch.
/// [`HostBatch::validate_changes`](super::HostBatch::validate_changes) does not validate these contents again. Reuse a
/// mark for several batches, because its list keeps the allocated capacity.
#[derive(Debug, Default)]
pub struct Mark {
    /// Address of the nodes.
    address: usize,
    nodes: usize,
    bytes: usize,
    events: Vec<Event>,
}

#[cfg(feature = "frame")]
impl Mark {
    /// Returns the events of the batch when it was marked.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }
}

/// The extent of a batch before a call, which shows whether the call edited the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Addresses of the nodes and of the bytes.
    addresses: [usize; 2],
    /// Numbers of nodes, bytes, values and events.
    lengths: [usize; 4],
}

/// Number of bytes per node above which checking the text of each node is faster than checking all bytes of the batch
/// at once.
const NODE_TEXT: usize = 64;

impl Batch {
    #[inline]
    pub(crate) fn extent(&self) -> Extent {
        let (nodes, bytes) = (self.nodes(), self.bytes());
        Extent {
            addresses: [nodes.as_ptr().addr(), bytes.as_ptr().addr()],
            lengths: [nodes.len(), bytes.len(), self.values.len(), self.events.len()],
        }
    }

    pub(crate) fn has_extent(&self, extent: &Extent) -> bool {
        self.values.is_empty() && self.extent() == *extent
    }

    pub(crate) fn validate(&self) -> Result<Claims, PluginError> {
        self.validate_within(Budget::new(self.flat_weight()))
    }

    pub(super) fn validate_within(&self, budget: Budget) -> Result<Claims, PluginError> {
        let (bytes, values) = (self.bytes().len(), self.values.len());
        // In a batch of messages that share their metadata, the text of documents is a small part of the bytes.
        let is_mostly_raw = self.nodes().len() * NODE_TEXT < bytes;
        let mut check = Check::new(self, if is_mostly_raw { bytes } else { 0 });
        check.documents.budget = budget;
        for (position, event) in self.events().iter().enumerate() {
            let is_plain_message = event.kind == PayloadKind::RAW
                && event.payload.range().end <= bytes
                && event.original.word() == 0
                && (event.locations() == check.locations
                    || (event.origin as usize <= values && event.metadata == 0));
            if !is_plain_message || !check.documents.budget.spend(event.payload.len.into()) {
                check.event(position, event)?;
            }
        }
        Ok(check.claims)
    }

    pub(crate) fn mark(&self, mark: &mut Mark) {
        mark.address = self.nodes().as_ptr().addr();
        (mark.nodes, mark.bytes) = (self.nodes().len(), self.bytes().len());
        mark.events.clear();
        mark.events.extend_from_slice(&self.events);
    }

    pub(crate) fn validate_changes(&self, mark: &Mark) -> Result<Claims, PluginError> {
        let nodes = self.nodes();
        // Code only appends to buffers: see the documentation of the module. If the buffers are the same as at the time
        // of the mark, contents that were valid then are still valid.
        let same = nodes.as_ptr().addr() == mark.address
            && nodes.len() >= mark.nodes
            && self.bytes().len() >= mark.bytes;
        let mut expected: &[Event] = if same { &mark.events } else { &[] };
        let mut check = Check::new(self, mark.bytes);
        for (position, event) in self.events().iter().enumerate() {
            // Events usually keep their order, so the expected event is usually the next one. Each event of the mark is
            // used for at most one event of the batch. A second event with the same payload is validated, so that it
            // counts towards the budget.
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
                check.edited = edited(&mut expected, event);
                check.event(position, event)?;
                check.edited = None;
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
        Ok(check.claims)
    }

    /// Returns whether `event` has no origin, has an origin in the batch's table of values, or has the same origin in
    /// the batch's nodes as the known event `old`.
    #[inline]
    fn has_origin_of(&self, event: &Event, old: &Event) -> bool {
        event.origin as usize <= self.values.len()
            || (event.origin == old.origin && event.origin_root().is_some())
    }

    fn has_value(&self, position: u32) -> bool {
        (position as usize) < self.values.len()
    }
}

/// State of the validation of one batch.
struct Check<'b> {
    batch: &'b Batch,
    documents: Validator<'b>,
    /// Location of the metadata that was validated last. Consecutive events usually have the same metadata and origin,
    /// which count once towards the budget, because they are copied once.
    metadata: u32,
    origin: u32,
    /// Locations of the metadata and the origin of the event that was validated last.
    locations: u64,
    /// Position in the table of values after the last edited payload so far, and after the last metadata so far. An
    /// event that refers to an earlier position may share the value with another event, so the value counts towards the
    /// budget again.
    payloads: u32,
    metadata_values: u32,
    /// Root of the valid document from which the payload of the current event was probably made.
    edited: Option<u32>,
    claims: Claims,
}

impl<'b> Check<'b> {
    /// Creates a validation for documents whose text usually lies after the first `old` bytes.
    fn new(batch: &'b Batch, old: usize) -> Self {
        // A batch without nodes has no documents, so its bytes need not be examined.
        let old = if batch.nodes().is_empty() { batch.bytes().len() } else { old };
        let documents = Validator::new(batch.bytes(), old, Budget::new(batch.flat_weight()));
        Self {
            batch,
            documents,
            metadata: 0,
            origin: 0,
            locations: 0,
            payloads: 0,
            metadata_values: 0,
            edited: None,
            claims: Claims::default(),
        }
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
            PayloadKind::DOCUMENT => self.payload(position, event.payload.start)?,
            PayloadKind::VALUE if batch.has_value(event.payload.start) => {
                let is_shared = is_before(event.payload.start, &mut self.payloads);
                self.value(position, event.payload.start, is_shared)?;
            }
            PayloadKind::VALUE => {
                return Err(forged(position, "refers to a value outside of the batch"));
            }
            PayloadKind(kind) => {
                let fault = format_args!("has an unknown kind of payload, {kind}");
                return Err(forged(position, fault));
            }
        }
        if !event.is_forgotten() {
            if event.original.range().end > bytes {
                return Err(forged(position, "refers to original bytes outside of the batch"));
            }
            self.spend(position, event.original.len.into())?;
        }
        self.claims.add(position, event);
        if event.origin != self.origin {
            self.origin(position, event)?;
            self.origin = event.origin;
        }
        self.metadata(position, event)?;
        self.locations = event.locations();
        Ok(())
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
        if let Some(root) = event.metadata_root()
            && !self.documents.is_map_of_flat(self.batch.nodes(), root)
        {
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

    fn payload(&mut self, position: usize, root: u32) -> Result<(), PluginError> {
        let Some(valid) = self.edited else { return self.document(position, root, "is") };
        let validated = self.documents.validate_edited(self.batch.nodes(), root, valid);
        validated.map_err(|invalid| self.invalid(position, "is", &invalid))
    }

    #[inline]
    fn document(&mut self, position: usize, root: u32, what: &str) -> Result<(), PluginError> {
        let validated = self.documents.validate(self.batch.nodes(), root);
        validated.map_err(|invalid| self.invalid(position, what, &invalid))
    }

    #[cold]
    fn invalid(&self, position: usize, what: &str, invalid: &Invalid) -> PluginError {
        if invalid.reason == Reason::Budget {
            return self.exceeded(position);
        }
        forged(position, format_args!("{what} an {invalid}"))
    }

    /// Counts an edited value towards the budget if several events may refer to it. Values that belong to a single
    /// event need no budget, because together they are no larger than the batch.
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
                "exceeds the limit of {limit} bytes for the values and bytes that the events of the batch refer \
                 to, counted for each event; emit the events in several batches, or let fewer of them refer to \
                 the same value"
            ),
        )
    }
}

/// Returns whether `index` is before `end`, and otherwise moves `end` after `index`.
fn is_before(index: u32, end: &mut u32) -> bool {
    let is_before = index < *end;
    if !is_before {
        *end = index + 1;
    }
    is_before
}

impl Event {
    /// Returns whether the payloads and the original bytes of both events are the same parts of the batch's buffers, with
    /// the same flags. Always `false` for edited values.
    #[inline]
    fn has_payload_of(&self, other: &Self) -> bool {
        self.payload.word() == other.payload.word()
            && self.original.word() == other.original.word()
            && (self.kind, self.flags) == (other.kind, other.flags)
            && self.kind != PayloadKind::VALUE
    }
}

/// Returns the position of an event with the same payload in `known`. The search assumes that the payloads of `known`
/// are in ascending order. If an event is not found, the only effect is that it is validated again.
#[inline(never)]
fn find(known: &[Event], event: &Event) -> Option<usize> {
    let found = known.binary_search_by_key(&event.payload.start, |old| old.payload.start).ok()?;
    event.has_payload_of(&known[found]).then_some(found)
}

/// Returns the root of the document that an event had before it was edited, and removes the events up to it from
/// `expected`. The event is recognised by the bytes from which it was decoded, which are usually in ascending order.
fn edited(expected: &mut &[Event], event: &Event) -> Option<u32> {
    let original = event.original;
    if event.kind != PayloadKind::DOCUMENT || original.word() == 0 {
        return None;
    }
    let at = match expected.first() {
        Some(next) if next.original.word() == original.word() => 0,
        _ => expected.binary_search_by_key(&original.start, |old| old.original.start).ok()?,
    };
    let old = expected[at];
    *expected = &expected[at + 1..];
    (old.kind == PayloadKind::DOCUMENT).then_some(old.payload.start)
}

fn forged(position: usize, what: impl std::fmt::Display) -> PluginError {
    PluginError::internal(format_args!("event {position} of a batch {what}"))
}

#[cfg(test)]
mod tests;
