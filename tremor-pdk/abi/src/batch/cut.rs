//! Cutting: what a preprocessor does.

use std::ops::Range;

use abi_stable::std_types::RVec;

use super::{
    Batch, Rejected,
    bounds::{no_room, span},
    event::{Event, EventFlags, PayloadKind},
};
use crate::{ByteBuffer, error::PluginError};

/// What a preprocessor writes its messages to; see [`Batch::cut`] and
/// [`Rest::cut`](super::Rest::cut).
pub struct Cutter<'b> {
    bytes: &'b mut ByteBuffer,
    events: &'b mut RVec<Event>,
    rejected: &'b mut Vec<Rejected>,
    template: Event,
    /// How much there may be of bytes and of what is put out.
    most: usize,
    /// Where the payload goes on another time.
    left: Option<usize>,
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

    /// Emits a message of at most `most` bytes that `fill` makes of [`Cutter::payload`], where it
    /// is to lie; `fill` says how many there are.
    ///
    /// # Errors
    /// Those of `fill`; nothing is emitted then.
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

    /// Emits a message that is [`Cutter::payload`] followed by `tail`. The last one in the buffer is
    /// not copied for that.
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

    /// Emits bytes that are not in the payload as a part of a byte stream: the next of that stream
    /// goes on where they end.
    pub fn emit_fragment(&mut self, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(bytes);
        self.push(start, bytes.len(), EventFlags::FRAGMENT);
    }

    /// Hands the event on as it is.
    pub fn pass(&mut self) {
        self.events.push(self.template);
    }

    /// Rejects a message; `shown` is the part of it that the dead letter carries, of which the first
    /// [`Rejected::SHOWN`] bytes are kept.
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

    /// Rejects the event that is being cut, as it is.
    pub fn refuse(&mut self, error: PluginError) {
        let event = self.template.with_payload(self.template.kind, self.template.payload);
        self.rejected.push(Rejected { event, error });
    }

    /// How many bytes more may be put out in one message before that is enough for one batch; one at
    /// least.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.put_out()).max(1)
    }

    /// Whether enough was put out for one batch: time to [leave](Cutter::leave) the rest of the
    /// payload for the next one. Never in [`Batch::cut`].
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.put_out() > self.most
    }

    /// All bytes, and what was put out.
    #[inline]
    fn put_out(&self) -> usize {
        let events = self.events.len() * size_of::<Event>();
        self.bytes.len() + events + self.rejected.len() * size_of::<Rejected>()
    }

    /// What comes of the payload from this offset on comes later: the event is cut again with the
    /// rest of its payload, which may be empty. Nothing may be emitted after that.
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
            None => self.refuse(no_room()),
        }
    }
}

/// `RVec` has no `extend_from_within`.
fn extend_from_within(bytes: &mut ByteBuffer, range: Range<usize>) {
    let start = bytes.len();
    bytes.resize(start + range.len(), 0);
    let (old, new) = bytes.split_at_mut(start);
    new.copy_from_slice(&old[range]);
}

impl Batch {
    /// Runs a preprocessor over the batch: `cut` sees every event once and emits what is to stand
    /// in its place. What it rejects is returned.
    ///
    /// For what puts out about as much as it gets; for others there is
    /// [`Rest::cut`](super::Rest::cut).
    pub fn cut(&mut self, cut: impl FnMut(&mut Cutter<'_>)) -> Vec<Rejected> {
        let (mut rejected, rest) = self.cut_at_most(usize::MAX, cut);
        if let Some(rest) = rest {
            // Nobody comes back for it.
            let from = self.len();
            self.append(rest);
            let error = || PluginError::internal("what was left of it in `Batch::cut` is lost");
            let left = self.events[from..].iter();
            rejected.extend(left.map(|event| Rejected { event: *event, error: error() }));
            self.events.truncate(from);
        }
        rejected
    }

    /// As [`Batch::cut`], until so much is put out; also gives what is left then.
    pub(super) fn cut_at_most(
        &mut self,
        most: usize,
        mut cut: impl FnMut(&mut Cutter<'_>),
    ) -> (Vec<Rejected>, Option<Self>) {
        let mut rejected = Vec::new();
        let mut events = std::mem::take(&mut self.events);
        let scratch = self.shared.storage_mut().map(|s| std::mem::take(&mut s.scratch_events));
        let mut out = scratch.unwrap_or_default();
        let (bytes, _) = self.buffers_mut();
        let most = bytes.len().saturating_add(most);
        let mut left = None;
        for (position, event) in events.iter().enumerate() {
            let (events, rejected, template) = (&mut out, &mut rejected, *event);
            let mut cutter = Cutter { bytes, events, rejected, template, most, left: None };
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
