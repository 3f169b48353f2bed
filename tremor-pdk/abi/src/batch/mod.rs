//! Batches: what crosses the boundary, a queue or a thread is always a batch of events.
//!
//! # Memory layout
//! ```text
//! Batch ─┬─ events: [Event; n]   56 bytes each, own nothing, point into
//!        ├─ values: [Value]      edited payloads, metadata and origins; usually empty
//!        └─ shared ──► bytes: [u8]    raw messages and the strings of documents
//!                      nodes: [Node]  documents, 16 bytes a node
//! ```
//! Events and values belong to one batch; bytes and nodes are shared by all batches that were
//! cloned from it, and immutable while they are. So a fan-out copies 56 bytes an event, a filter
//! only shortens its event list, and an edit touches the editor's batch alone.
//!
//! # Bounds
//! Whatever makes much of little stops once a batch is heavy ([`Batch::WEIGHT_AT_MOST`]), and the
//! rest goes on in another batch ([`Rest`]). Above that there is only what cannot be divided: one
//! event, of [`Batch::decoded_at_most`].

mod append;
mod bounds;
mod buffered;
mod check;
mod cut;
mod event;
mod fill;
mod handle;
mod host;
mod metadata;
mod output;
mod rest;
mod rewrite;
mod select;
mod spare;
mod storage;

use abi_stable::{StableAbi, std_types::RVec};

pub use self::{
    buffered::{Absorbed, Buffered, Share},
    check::Mark,
    cut::Cutter,
    event::{Event, EventFlags, PayloadKind, Span, StreamKey},
    fill::Stream,
    handle::{EventMut, EventRef, Events},
    host::{HostBatch, HostOutput},
    output::{Failed, Output, PortBatch, Rejected, Verdict},
    rest::Rest,
    rewrite::Payload,
    select::{Selection, SelectionError},
    storage::Pool,
};
use crate::{
    document::{Document, Node, ValueRef},
    value::Value,
};

/// Events with the buffers that they point into. See the [module](self) for its shape.
///
/// Cloning shares the buffers: it copies the event list and the edited values, nothing else.
#[repr(C)]
#[derive(Clone, StableAbi)]
pub struct Batch {
    events: RVec<Event>,
    values: RVec<Value<'static>>,
    shared: storage::Shared,
    limit: Limit,
    /// The number of the pull that fills it.
    pull: u64,
}

/// How much a pull should add to a batch at most. A source that has one message in hand may exceed
/// it by that message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Limit {
    /// In events.
    pub events: u32,
    /// In bytes of payload.
    pub bytes: u32,
}

impl Default for Limit {
    /// 256 events or 256 KiB.
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
    /// An empty batch whose buffers are freed with it.
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

    /// How many events there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is no event.
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

    /// The bytes that raw payloads and documents lie in. They hold more than the payloads: what
    /// was filtered out, cut or decoded in place is still there.
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
        let span = if event.kind == PayloadKind::RAW { event.payload } else { event.original };
        self.slice(span)
    }

    #[inline]
    fn table(&self, index: u32) -> Option<ValueRef<'_>> {
        self.values.get(index as usize).map(ValueRef::from)
    }

    #[inline]
    fn document(&self, root: u32) -> ValueRef<'_> {
        Document::new(self.bytes(), self.nodes()).root(root)
    }

    /// Bad spans, which only a plugin that forged them can make, are empty.
    #[inline]
    fn slice(&self, span: Span) -> &[u8] {
        self.bytes().get(span.range()).unwrap_or_default()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The last holder leaves its lists with the buffers, for the next batch.
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
