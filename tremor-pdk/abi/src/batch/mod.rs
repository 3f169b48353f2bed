//! Batches of events. Events are passed only in batches: between plugin and host, through queues, and between threads.
//!
//! # Memory layout
//! ```text
//! Batch ─┬─ events: [Event; n]   56 bytes each, with indices into the others
//!        ├─ values: [Value]      edited payloads, metadata and origins; usually empty
//!        └─ shared ──► bytes: [u8]    raw messages and the strings of documents
//!                      nodes: [Node]  documents, 16 bytes a node
//! ```
//! Each batch owns its events and values. The clones of a batch share its bytes and nodes, which are immutable while
//! they are shared. Therefore sending a batch to several receivers copies only 56 bytes per event, removing events
//! changes only the list of events, and editing an event does not change the clones.
//!
//! # Bounds
//! A processor or codec that expands its input stops once its batch weighs more than [`Batch::WEIGHT_AT_MOST`], and
//! continues with the remaining input in another batch ([`RemainingInput`]). Therefore a batch exceeds this weight by
//! at most one event, whose size is limited to [`Batch::decoded_at_most`].

mod append;
mod assemble;
mod bounds;
mod buffered;
mod carry;
mod check;
mod cut;
mod event;
mod fields;
mod fill;
#[cfg(feature = "frame")]
pub mod frame;
mod handle;
mod host;
mod identity;
mod metadata;
mod origin;
mod output;
mod remaining;
mod rewrite;
mod select;
mod spare;
mod storage;
mod unedited;
mod unnest;

use abi_stable::{StableAbi, std_types::RVec};

pub use self::{
    buffered::{Absorbed, Buffered, Share},
    carry::CarriedFields,
    check::{Extent, Mark},
    cut::Cutter,
    event::{Event, EventFlags, PayloadKind, Span, StreamKey},
    fields::MetadataFields,
    fill::Stream,
    handle::{EventMut, EventRef, Events},
    host::{HostBatch, HostOutput},
    identity::{Identities, Surplus},
    origin::Origin,
    output::{Failed, Output, PortBatch, Rejected, Verdict},
    remaining::RemainingInput,
    rewrite::Payload,
    select::{
        Edits, FieldWriter, Insertion, Part, Replacement, Selection, SelectionError, TextFields,
    },
    storage::Pool,
    unedited::{Claims, Format},
    unnest::Unnest,
};
use crate::{
    document::{Document, Node, ValueRef},
    value::Value,
};

/// Events with the buffers that they point into. The [module](self) describes the memory layout.
///
/// A clone shares the buffers: cloning copies only the list of events and the edited values.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct Batch {
    events: RVec<Event>,
    values: RVec<Value<'static>>,
    shared: storage::Shared,
    limit: Limit,
    /// Number of the pull that fills the batch.
    pull: u64,
}

/// Maximum number of events and bytes that a pull should add to a batch. A source that has already read a message may
/// exceed the limit by that message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Limit {
    /// Maximum number of events.
    pub events: u32,
    /// Maximum bytes of payload.
    pub bytes: u32,
}

impl Default for Limit {
    /// Returns a limit of 256 events or 256 KiB.
    fn default() -> Self {
        Self { events: 256, bytes: 256 << 10 }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// Creates an empty batch whose buffers are freed when the batch and its clones are dropped.
    pub fn new() -> Self {
        Self::on(storage::Shared::unpooled())
    }

    pub(crate) fn from_pool(pool: &Pool) -> Self {
        Self::on(pool.take())
    }

    fn on(mut shared: storage::Shared) -> Self {
        let (events, values) = match shared.storage_mut() {
            Some(storage) => (
                std::mem::take(&mut storage.spare_events),
                std::mem::take(&mut storage.spare_values),
            ),
            None => (RVec::new(), RVec::new()),
        };
        Self { events, values, shared, limit: Limit::default(), pull: 0 }
    }

    /// Returns the number of events.
    #[inline]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether the batch contains no event.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    #[inline]
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    #[inline]
    pub(crate) fn events_mut(&mut self) -> &mut [Event] {
        &mut self.events
    }

    /// Returns the bytes that raw payloads and documents point into. The bytes also contain data of events that were
    /// filtered out, cut or decoded in place.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.shared.storage().bytes
    }

    #[inline]
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.shared.storage().nodes
    }

    pub(crate) fn byte_capacity(&self) -> usize {
        self.shared.storage().bytes.capacity()
    }

    #[inline]
    pub(crate) fn raw(&self, event: &Event) -> Option<&[u8]> {
        (event.kind == PayloadKind::RAW).then(|| self.slice(event.payload))
    }

    #[inline]
    pub(crate) fn value(&self, event: &Event) -> Option<ValueRef<'_>> {
        match event.kind {
            PayloadKind::DOCUMENT => Some(self.document(event.payload.start)),
            PayloadKind::VALUE => self.table(event.payload.start),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn original(&self, event: &Event) -> &[u8] {
        match event.kind {
            PayloadKind::RAW => self.slice(event.payload),
            _ if event.is_forgotten() => &[],
            _ => self.slice(event.original),
        }
    }

    #[inline]
    fn table(&self, index: u32) -> Option<ValueRef<'_>> {
        self.values.get(index as usize).map(ValueRef::from)
    }

    #[inline]
    fn document(&self, root: u32) -> ValueRef<'_> {
        Document::new(self.bytes(), self.nodes()).root(root)
    }

    /// Returns the bytes of a span, or an empty slice if the span is invalid, which only a faulty plugin can cause.
    #[inline]
    fn slice(&self, span: Span) -> &[u8] {
        self.bytes().get(span.range()).unwrap_or_default()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The batch that releases the buffers leaves its lists with them, so that the next batch reuses the capacity.
        if let Some(storage) = self.shared.storage_mut() {
            self.events.clear();
            self.values.clear();
            storage.spare_events = std::mem::take(&mut self.events);
            storage.spare_values = std::mem::take(&mut self.values);
        }
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("events", &self.events.len())
            .field("values", &self.values.len())
            .field("bytes", &self.bytes().len())
            .field("nodes", &self.nodes().len())
            .finish_non_exhaustive()
    }
}
