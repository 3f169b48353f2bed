//! The interface with which preprocessors cut the events of a batch into messages.

use std::ops::Range;

use abi_stable::std_types::RVec;

use super::{
    Batch, Origin, Rejected,
    bounds::{span, too_large},
    event::{Event, EventFlags, PayloadKind},
};
use crate::{ByteBuffer, NodeBuffer, document::Document, error::PluginError};

/// An event that a preprocessor cuts, and the receiver of the resulting messages: see [`Batch::cut`] and
/// [`RemainingInput::cut`](super::RemainingInput::cut).
pub struct Cutter<'b> {
    bytes: &'b mut ByteBuffer,
    nodes: &'b mut NodeBuffer,
    events: &'b mut RVec<Event>,
    rejected: &'b mut Vec<Rejected>,
    template: Event,
    /// Size of the bytes, events and rejected events of the batch, in bytes, above which the preprocessor has to stop.
    most: usize,
    /// Offset in the payload at which a later call continues; `None` if the payload was processed completely.
    left: Option<usize>,
}

impl Cutter<'_> {
    /// Returns the bytes of the event that is being cut.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.template.payload.range()).unwrap_or_default()
    }

    /// Returns the event that is being cut.
    #[inline]
    pub fn event(&self) -> &Event {
        &self.template
    }

    /// Returns a copy of the origin and the metadata of the event, if the source has set both with
    /// [`Batch::apply_origin`]. A preprocessor that buffers bytes of a stream can keep this copy for a later call in
    /// which the stream has no event of the source.
    pub fn origin(&self) -> Option<Origin> {
        let document = Document::new(self.bytes, self.nodes);
        let text = document.root(self.template.origin_root()?).as_str()?;
        let metadata = document.root(self.template.metadata_root()?);
        Some(Origin::new(text, |writer| writer.write_value(metadata)))
    }

    /// Returns whether the event has neither an origin nor metadata, as is the case for an event that the runtime has
    /// created.
    #[doc(hidden)]
    #[inline]
    pub const fn is_of_no_origin(&self) -> bool {
        self.template.locations() == 0
    }

    /// Sets the origin and the metadata of the messages that are emitted after this call.
    pub fn apply_origin(&mut self, origin: &Origin) {
        (self.template.origin, self.template.metadata) = origin.copy_to(self.bytes, self.nodes);
    }

    /// Emits a range of [`Cutter::payload`] as a message, without a copy.
    #[inline]
    pub fn emit(&mut self, range: Range<usize>) {
        let start = self.template.payload.start as usize + range.start;
        self.push(start, range.len(), EventFlags(0));
    }

    /// Emits a message that is `head` followed by a range of [`Cutter::payload`].
    pub fn emit_joined(&mut self, head: &[u8], range: Range<usize>) {
        let start = self.bytes.len();
        let from = self.template.payload.start as usize;
        self.bytes.reserve(head.len() + range.len());
        self.bytes.extend_from_copy_slice(head);
        extend_from_within(self.bytes, from + range.start..from + range.end);
        self.push(start, self.bytes.len() - start, EventFlags(0));
    }

    /// Emits the first `len` bytes of `data` as a message. The remaining bytes, such as a separator, follow the message in
    /// the buffer, but do not belong to it. If a sink ends its messages with the same separator, it can send the message
    /// and these bytes without a copy.
    ///
    /// # Panics
    /// Panics if `data` is shorter than `len` bytes.
    #[doc(hidden)] // only for the splitter of the kit
    pub fn emit_with_end(&mut self, data: &[u8], len: usize) {
        assert!(len <= data.len(), "a message of {len} bytes in {} bytes", data.len());
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(data);
        self.push(start, len, EventFlags(0));
    }

    /// Removes the position of the event in its pull, so that the messages that are cut from the event have none. Call this
    /// if the first of them begins in an earlier event: another position would claim that all of the message is there.
    #[doc(hidden)] // only for the splitter of the kit
    pub fn forget_position(&mut self) {
        self.template.set_position(usize::MAX);
    }

    /// Emits a message of at most `most` bytes, which `fill` derives from [`Cutter::payload`] and writes directly into
    /// the batch's buffer. `fill` returns the number of bytes written.
    ///
    /// # Errors
    /// Returns the error of `fill`; then nothing is emitted.
    pub fn emit_filled<E>(
        &mut self,
        most: usize,
        fill: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        self.bytes.resize(start + most, 0);
        let (old, new) = self.bytes.split_at_mut(start);
        let filled = fill(old.get(self.template.payload.range()).unwrap_or_default(), new);
        let count = filled.as_ref().map_or(0, |count| (*count).min(most));
        self.bytes.truncate(start + count);
        filled.map(|_| self.push(start, count, EventFlags(0)))
    }

    /// Emits a message that is [`Cutter::payload`] followed by `tail`. The payload is not copied if it is at the end of
    /// the buffer.
    pub fn emit_followed(&mut self, tail: &[u8]) {
        let payload = self.template.payload.range();
        if payload.end == self.bytes.len() {
            self.bytes.extend_from_copy_slice(tail);
            return self.push(payload.start, payload.len() + tail.len(), EventFlags(0));
        }
        let start = self.bytes.len();
        extend_from_within(self.bytes, payload);
        self.bytes.extend_from_copy_slice(tail);
        self.push(start, self.bytes.len() - start, EventFlags(0));
    }

    /// Emits bytes that are not in the payload, as a fragment of the byte stream.
    pub fn emit_fragment(&mut self, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(bytes);
        self.push(start, bytes.len(), EventFlags::FRAGMENT);
    }

    /// Emits the event unchanged.
    pub fn pass(&mut self) {
        self.events.push(self.template);
    }

    /// Rejects a message. The dead letter contains the first [`Rejected::SHOWN`] bytes of `shown`.
    pub fn reject(&mut self, shown: &[u8], error: PluginError) {
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(&shown[..shown.len().min(Rejected::SHOWN)]);
        match span(start, self.bytes.len() - start) {
            Some(payload) => {
                let event = self.template.with_payload(PayloadKind::RAW, payload);
                self.rejected.push(Rejected { event, error });
            }
            None => self.refuse(error),
        }
    }

    /// Rejects the event that is being cut, with its whole payload.
    pub fn refuse(&mut self, error: PluginError) {
        let event = self.template.with_payload(self.template.kind, self.template.payload);
        self.rejected.push(Rejected { event, error });
    }

    /// Returns the number of bytes by which the batch may still grow before it is heavy; at least 1.
    pub fn capacity(&self) -> usize {
        self.most.saturating_sub(self.put_out()).max(1)
    }

    /// Returns whether the batch is heavy, so that the preprocessor should [leave](Cutter::leave) the remaining payload
    /// for the next batch. Always `false` in [`Batch::cut`].
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.put_out() > self.most
    }

    /// Returns the size of the bytes, events and rejected events of the batch, in bytes.
    #[inline]
    fn put_out(&self) -> usize {
        let events = self.events.len() * size_of::<Event>();
        self.bytes.len() + events + self.rejected.len() * size_of::<Rejected>()
    }

    /// Leaves the part of the payload that begins at the offset `from` for a later call, in which
    /// [`payload`](Cutter::payload) returns this part. The part may be empty. Emit nothing after this call.
    pub fn leave(&mut self, from: usize) {
        self.left = Some(from);
    }

    #[inline]
    fn push(&mut self, start: usize, len: usize, flags: EventFlags) {
        match span(start, len) {
            Some(payload) => {
                let mut event = self.template.with_payload(PayloadKind::RAW, payload);
                event.flags = flags;
                self.events.push(event);
            }
            None => self.refuse(too_large()),
        }
    }
}

/// Appends a copy of the bytes in `range` to the buffer. `RVec` has no method `extend_from_within`.
fn extend_from_within(bytes: &mut ByteBuffer, range: Range<usize>) {
    let start = bytes.len();
    bytes.resize(start + range.len(), 0);
    let (old, new) = bytes.split_at_mut(start);
    new.copy_from_slice(&old[range]);
}

impl Batch {
    /// Calls `cut` once for each event, and replaces the event with the messages that `cut` emits. Returns the rejected
    /// events.
    ///
    /// Use this method if the output is about as large as the input, and
    /// [`RemainingInput::cut`](super::RemainingInput::cut) otherwise.
    #[must_use = "events that are not passed to `Output::reject_all` are lost"]
    pub fn cut(&mut self, cut: impl FnMut(&mut Cutter<'_>)) -> Vec<Rejected> {
        let (mut rejected, rest) = self.cut_at_most(usize::MAX, cut);
        if let Some(rest) = rest {
            // The remaining input is rejected, because no later call processes it.
            let from = self.len();
            self.append(rest);
            let error = || {
                PluginError::internal(
                    "cannot process the remaining input: `Batch::cut` has no later call; use `RemainingInput::cut`",
                )
            };
            let left = self.events[from..].iter();
            rejected.extend(left.map(|event| Rejected { event: *event, error: error() }));
            self.events.truncate(from);
        }
        rejected
    }

    /// Cuts as [`Batch::cut`] does until the size of the batch exceeds `most` bytes. Also returns the remaining input,
    /// if any.
    pub(super) fn cut_at_most(
        &mut self,
        most: usize,
        mut cut: impl FnMut(&mut Cutter<'_>),
    ) -> (Vec<Rejected>, Option<Self>) {
        let mut rejected = Vec::new();
        let mut events = std::mem::take(&mut self.events);
        let scratch = self.shared.storage_mut().map(|s| std::mem::take(&mut s.scratch_events));
        let mut out = scratch.unwrap_or_default();
        let (bytes, nodes) = self.buffers_mut();
        let most = bytes.len().saturating_add(most);
        let mut left = None;
        for (position, event) in events.iter().enumerate() {
            let (events, rejected, template) = (&mut out, &mut rejected, *event);
            let mut cutter = Cutter { bytes, nodes, events, rejected, template, most, left: None };
            cut(&mut cutter);
            if let Some(from) = cutter.left {
                left = Some((position, from));
                break;
            }
            if cutter.is_heavy() {
                left = Some((position + 1, 0));
                break;
            }
        }
        self.events = out;
        let rest = left.and_then(|(position, from)| {
            let rest = events.get_mut(position..).filter(|rest| !rest.is_empty())?;
            let from = u32::try_from(from).unwrap_or(u32::MAX).min(rest[0].payload.len);
            rest[0].payload.start += from;
            rest[0].payload.len -= from;
            Some(self.detached(rest))
        });
        events.clear();
        if let Some(storage) = self.shared.storage_mut() {
            storage.scratch_events = events;
        }
        (rejected, rest)
    }
}
