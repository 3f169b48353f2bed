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
    /// Maximum of this size. A call that would exceed it emits nothing.
    limit: usize,
    /// `true` if a call would have exceeded `limit`. The event is then rejected, and everything that was emitted for it
    /// is removed.
    is_too_large: bool,
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
        if !self.has_space(head.len() + range.len()) {
            return;
        }
        let start = self.bytes.len();
        let from = self.template.payload.start as usize;
        self.bytes.reserve(head.len() + range.len());
        self.bytes.extend_from_copy_slice(head);
        extend_from_within(self.bytes, from + range.start..from + range.end);
        self.push(start, self.bytes.len() - start, EventFlags(0));
    }

    /// Emits the first `len` bytes of `data` as a message. The remaining bytes, such as a separator, follow the message in
    /// the buffer, but do not belong to it. If a sink ends its messages with the same separator, it can send the message
    /// and these bytes without a copy. The number of bytes is not limited.
    ///
    /// # Panics
    /// Panics if `data` is shorter than `len` bytes.
    #[doc(hidden)] // only for components that limit their messages
    pub fn emit_with_end(&mut self, data: &[u8], len: usize) {
        assert!(len <= data.len(), "a message of {len} bytes in {} bytes", data.len());
        self.limit = self.limit.saturating_add(data.len());
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(data);
        self.push(start, len, EventFlags(0));
    }

    /// Removes the position of the event in its pull, so that the messages that are cut from the event have none. Call this
    /// if the first of them begins in an earlier event: another position would claim that all of the message is there.
    #[doc(hidden)] // for the kit and for built-in preprocessors; the host does not trust the positions of a plugin's
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
        if !self.has_space(most) {
            return Ok(());
        }
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
        if !self.has_space(payload.len() + tail.len()) {
            return;
        }
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
        if !self.has_space(bytes.len()) {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(bytes);
        self.push(start, bytes.len(), EventFlags::FRAGMENT);
    }

    /// Emits the event unchanged.
    pub fn pass(&mut self) {
        self.add(self.template);
    }

    /// Rejects a message. The dead letter contains the first [`Rejected::SHOWN`] bytes of `shown`.
    pub fn reject(&mut self, shown: &[u8], error: PluginError) {
        let shown = &shown[..shown.len().min(Rejected::SHOWN)];
        if !self.has_space(shown.len()) {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_copy_slice(shown);
        match span(start, shown.len()) {
            Some(payload) => {
                let event = self.template.with_payload(PayloadKind::RAW, payload);
                self.add_rejected(event, error);
            }
            None => self.refuse(error),
        }
    }

    /// Rejects the event that is being cut, with its whole payload.
    pub fn refuse(&mut self, error: PluginError) {
        let event = self.template.with_payload(self.template.kind, self.template.payload);
        self.add_rejected(event, error);
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

    /// Rejects an event whose output is too large, and removes this output. `before` contains the numbers of bytes, events
    /// and rejected events before the output, and `limit` the maximum size of the output of all events in bytes.
    #[cold]
    fn take_back(&mut self, before: (usize, usize, usize), event: Event, limit: usize) {
        self.bytes.truncate(before.0);
        self.events.truncate(before.1);
        self.rejected.truncate(before.2);
        self.left = None;
        let event = event.with_payload(event.kind, event.payload);
        let error = PluginError::bad_data(format_args!(
            "the output for a batch would have more than {limit} bytes: emit fewer or smaller messages"
        ));
        self.rejected.push(Rejected { event, error });
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
                self.add(event);
            }
            None => self.refuse(too_large()),
        }
    }

    #[inline]
    fn add(&mut self, event: Event) {
        // The memory of the list only grows if its capacity is used.
        if self.events.len() < self.events.capacity() || self.has_space(size_of::<Event>()) {
            self.events.push(event);
        }
    }

    fn add_rejected(&mut self, event: Event, error: PluginError) {
        if self.has_space(size_of::<Rejected>()) {
            self.rejected.push(Rejected { event, error });
        }
    }

    /// Returns whether the size of the batch may grow by `bytes`. If not, the event is too large.
    #[inline]
    fn has_space(&mut self, bytes: usize) -> bool {
        self.is_too_large |= self.put_out().saturating_add(bytes) > self.limit;
        !self.is_too_large
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
    /// [`RemainingInput::cut`](super::RemainingInput::cut) otherwise. The output of a call may take 64 MiB, or eight times
    /// the size of the batch if that is more. An event whose output exceeds this is rejected.
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
        let added = self.output_at_most();
        let mut events = std::mem::take(&mut self.events);
        let scratch = self.shared.storage_mut().map(|s| std::mem::take(&mut s.scratch_events));
        let mut out = scratch.unwrap_or_default();
        let (bytes, nodes) = self.buffers_mut();
        let mut limit = bytes.len().saturating_add(added);
        let most = bytes.len().saturating_add(most);
        let mut left = None;
        for (position, event) in events.iter().enumerate() {
            let (events, rejected, template) = (&mut out, &mut rejected, *event);
            let before = (bytes.len(), events.len(), rejected.len());
            let mut cutter = Cutter {
                bytes,
                nodes,
                events,
                rejected,
                template,
                most,
                limit,
                is_too_large: false,
                left: None,
            };
            cut(&mut cutter);
            limit = cutter.limit;
            if cutter.is_too_large {
                cutter.take_back(before, *event, added);
            }
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

#[cfg(test)]
mod tests {
    use super::{Batch, Cutter};
    use crate::error::PluginError;

    fn messages(batch: &Batch) -> Vec<String> {
        let text = |event| String::from_utf8_lossy(batch.raw(event).unwrap()).into_owned();
        batch.events().iter().map(text).collect()
    }

    /// Cuts three messages, the second of which with `cut`. Returns the batch and the rejected messages.
    fn cut(mut cut: impl FnMut(&mut Cutter<'_>)) -> (Batch, Vec<(String, String)>) {
        let mut batch = Batch::new();
        [&b"one"[..], b"big", b"two"].into_iter().for_each(|message| batch.push_message(message));
        let rejected = batch.cut(|cutter| {
            if cutter.payload() == b"big" {
                cut(cutter);
            }
            cutter.emit_followed(b"!");
        });
        let shown = |event| String::from_utf8_lossy(batch.original(event)).into_owned();
        let rejected = rejected.iter().map(|it| (shown(&it.event), it.error.to_string())).collect();
        (batch, rejected)
    }

    #[test]
    fn event_with_too_much_output_is_rejected_without_it() {
        const MANY: usize = 4_000_000;
        let mebibyte = vec![b'x'; 1 << 20];
        let error = || PluginError::bad_data("told to");
        let calls: [&dyn Fn(&mut Cutter<'_>); 9] = [
            &|cutter| (0..65).for_each(|_| cutter.emit_joined(&mebibyte, 0..0)),
            &|cutter| (0..65).for_each(|_| cutter.emit_followed(&mebibyte)),
            &|cutter| (0..65).for_each(|_| cutter.emit_fragment(&mebibyte)),
            &|cutter| {
                let filled = cutter.emit_filled(usize::MAX, |_, _| Err::<usize, _>("called"));
                assert_eq!(filled, Ok(()), "the function is not called");
            },
            &|cutter| (0..MANY).for_each(|_| cutter.emit(0..1)),
            &|cutter| (0..MANY).for_each(|_| cutter.pass()),
            &|cutter| (0..20_000).for_each(|_| cutter.reject(&mebibyte, error())),
            &|cutter| (0..MANY / 4).for_each(|_| cutter.refuse(error())),
            &|cutter| {
                (0..65).for_each(|_| cutter.emit_joined(&mebibyte, 0..0));
                cutter.leave(1);
            },
        ];
        for (number, call) in calls.iter().enumerate() {
            let (batch, rejected) = cut(call);
            assert_eq!(messages(&batch), ["one!", "two!"], "{number}");
            let [(shown, error)] = &rejected[..] else { panic!("{number}: {}", rejected.len()) };
            assert_eq!(shown, "big", "{number}");
            assert!(error.contains("more than 67108864 bytes"), "{number}: {error}");
            assert!(batch.bytes().len() < 100, "{number}: {batch:?}");
            batch.validate().unwrap();
        }
    }

    #[test]
    fn limit_grows_with_batch_and_with_messages_of_limited_size() {
        let large = vec![b'x'; 65 << 20];
        let (batch, rejected) = cut(|cutter| cutter.emit_with_end(&large, large.len()));
        assert_eq!((batch.len(), rejected.len()), (4, 0));
        let mut batch = Batch::new();
        batch.push_message(&large[..9 << 20]);
        let rejected = batch.cut(|cutter| cutter.emit_joined(&large, 0..0));
        assert_eq!((batch.len(), rejected.len()), (1, 0));
    }
}
