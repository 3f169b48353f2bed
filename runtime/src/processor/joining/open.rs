//! Open messages.

use std::ops::Range;

use tremor_abi::batch::{Event, HostBatch, Rejected, Span};
use tremor_pdk::{Batch, Error};

/// Capacity in bytes up to which the buffer of a message is kept for the next message.
const KEPT_CAPACITY: usize = 64 << 10;

/// A message that may continue.
pub(in crate::processor) struct Open<S> {
    pub(in crate::processor) state: S,
    /// The first part. Metadata and origin refer to `context`.
    event: Event,
    context: Context,
    /// The message, if `is_joined`. Otherwise the message is the payload of `event` in the current batch.
    text: Vec<u8>,
    is_joined: bool,
    /// Number of parts.
    pub(in crate::processor) parts: usize,
    /// Number of the call that received the first bytes of the first part.
    pub(in crate::processor) arrival: u64,
    /// Number of the last call that received a part.
    pub(in crate::processor) touched: u64,
    /// Time in ns at which the message is complete, unless it continues before.
    pub(in crate::processor) due: u64,
    /// The deadline in the set of deadlines, in ns, if there is one.
    pub(in crate::processor) queued: Option<u64>,
    /// Number of bytes that are counted for the message, and for those that it holds.
    pub(in crate::processor) counted: usize,
    /// The messages before this one that a later part may reunite with it. They hold no messages themselves.
    held: Vec<Self>,
    /// `true` if the held messages had to be passed on, so that no later part reunites the messages.
    pub(super) was_released: bool,
}

/// Location of the metadata and the origin of an open message.
enum Context {
    /// The current batch.
    Here,
    /// The message has neither metadata nor an origin.
    None,
    /// A separate batch, whose only event has the metadata and the origin.
    Apart(Box<Batch>),
}

impl<S: Copy> Open<S> {
    /// Creates a message of one part: the range `range` of the payload of `event`, or `scratch` if there is no range.
    pub(in crate::processor) fn new(
        event: &Event,
        range: Option<Range<usize>>,
        scratch: &[u8],
        state: S,
        arrival: u64,
    ) -> Self {
        let mut open = Self {
            state,
            event: *event,
            context: Context::Here,
            text: Vec::new(),
            is_joined: false,
            parts: 1,
            arrival,
            touched: arrival,
            due: 0,
            queued: None,
            counted: 0,
            held: Vec::new(),
            was_released: false,
        };
        open.restart(event, range, scratch, state, arrival);
        open
    }

    /// Replaces the message, which was finished, by a message of one part.
    pub(in crate::processor) fn restart(
        &mut self,
        event: &Event,
        range: Option<Range<usize>>,
        scratch: &[u8],
        state: S,
        arrival: u64,
    ) {
        (self.state, self.parts, self.arrival) = (state, 1, arrival);
        self.context = Context::Here;
        self.is_joined = range.is_none();
        match range {
            Some(range) => self.event = crop(event, range),
            None => {
                self.event = *event;
                self.text.extend_from_slice(scratch);
            }
        }
    }

    /// Returns the bytes of the message. `batch` is the current batch.
    pub(in crate::processor) fn content<'b>(&'b self, batch: &'b Batch) -> &'b [u8] {
        if self.is_joined { &self.text } else { batch.raw(&self.event).unwrap_or_default() }
    }

    /// Returns the length of the message in bytes.
    pub(in crate::processor) fn len(&self) -> usize {
        if self.is_joined {
            return self.text.len();
        }
        self.event.raw_span().map_or(0, |span| span.len as usize)
    }

    /// Adds a part.
    pub(in crate::processor) fn append(&mut self, batch: &Batch, separator: &[u8], content: &[u8]) {
        self.join(batch);
        self.text.extend_from_slice(separator);
        self.text.extend_from_slice(content);
        self.parts += 1;
        // A joined message has no position, because its parts have several.
        self.event.set_position(usize::MAX);
    }

    fn join(&mut self, batch: &Batch) {
        if !std::mem::replace(&mut self.is_joined, true) {
            self.text.extend_from_slice(batch.raw(&self.event).unwrap_or_default());
        }
    }

    /// Begins the message `next`, which holds this one. `touched` is the number of the last call that received a part of
    /// this message.
    pub(super) fn hold(&mut self, next: Self, touched: u64) {
        let Self { due, queued, counted, .. } = *self;
        let held = std::mem::take(&mut self.held);
        let next = Self { touched: self.touched, due, queued, counted, held, ..next };
        let held = std::mem::replace(self, next);
        self.held.push(Self { touched, ..held });
    }

    /// Joins the held messages with this one, unless the message would have more than `parts` parts or `bytes` bytes.
    pub(super) fn reunite(&mut self, batch: &Batch, separator: &[u8], parts: usize, bytes: usize) {
        let all = || self.held.iter().chain([&*self]);
        let length = all().map(|it| it.len() + separator.len()).sum::<usize>() - separator.len();
        let count: usize = all().map(|it| it.parts).sum();
        if self.held.is_empty() || count > parts || length > bytes {
            return;
        }
        let mut held = self.release().into_iter();
        let Some(first) = held.next() else { return };
        let Self { touched, due, queued, counted, .. } = *self;
        let last = std::mem::replace(self, Self { touched, due, queued, counted, ..first });
        for message in held.chain([last]) {
            self.append(batch, separator, message.content(batch));
        }
        self.parts = count;
    }

    /// Returns the held messages, which this message then no longer holds.
    pub(super) fn release(&mut self) -> Vec<Self> {
        std::mem::take(&mut self.held)
    }

    /// Returns the first of the held messages, or this message if it holds none.
    pub(super) fn first(&self) -> &Self {
        self.held.first().unwrap_or(self)
    }

    /// Sets the deadline of the message, and of the first held message if the call `call` received a part of it.
    pub(super) fn set_due(&mut self, due: u64, call: u64) {
        self.due = due;
        if let Some(first) = self.held.first_mut().filter(|first| first.touched == call) {
            first.due = due;
        }
    }

    /// Removes the bytes of the message from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        if self.is_joined {
            self.text.truncate(length);
        } else {
            self.event = crop(&self.event, 0..length);
        }
    }

    /// Replaces the message, which has several parts, by these ranges of it.
    pub(in crate::processor) fn rearrange(&mut self, ranges: impl Iterator<Item = Range<usize>>) {
        let mut text = Vec::with_capacity(self.text.len());
        ranges.for_each(|range| text.extend_from_slice(self.text.get(range).unwrap_or_default()));
        self.text = text;
    }

    /// Ends the message. Returns its event, whose contents are in `batch`.
    pub(in crate::processor) fn finish(
        &mut self,
        batch: &mut Batch,
    ) -> Result<Event, Box<Rejected>> {
        let event = match std::mem::replace(&mut self.context, Context::None) {
            Context::Here | Context::None => self.event,
            Context::Apart(apart) => {
                apart.events().first().map_or(self.event, |event| batch.adopt(&apart, event))
            }
        };
        if !self.is_joined {
            return Ok(event);
        }
        let payload = batch.append_bytes(&self.text);
        self.text.clear();
        if self.text.capacity() > KEPT_CAPACITY {
            self.text = Vec::new();
        }
        payload.map(|payload| event.with_raw(payload)).ok_or_else(|| Box::new(too_large(event)))
    }

    /// Ends the message of a stream that was cut off.
    pub(in crate::processor) fn abort(&mut self, batch: &mut Batch) -> Rejected {
        let length = self.len();
        let error = Error::connection_lost(format_args!(
            "the stream was cut off within a message, of which {length} bytes were received"
        ));
        self.reject(batch, error)
    }

    /// Ends the message with an error. Returns its event with the first bytes of the message.
    pub(in crate::processor) fn reject(&mut self, batch: &mut Batch, error: Error) -> Rejected {
        self.join(batch);
        self.text.truncate(Rejected::SHOWN);
        match self.finish(batch) {
            Ok(event) => Rejected { event, error },
            Err(rejected) => *rejected,
        }
    }

    /// Moves the contents of the message, and of those that it holds, out of `batch`.
    pub(in crate::processor) fn park(&mut self, batch: &Batch) {
        self.held.iter_mut().for_each(|held| held.park(batch));
        self.join(batch);
        if !matches!(self.context, Context::Here) {
            return;
        }
        self.context = Context::None;
        // The position refers to the pull of the current call, and the message may be emitted by a later one.
        self.event.set_position(usize::MAX);
        if self.event.has_context() {
            let mut apart = Batch::new();
            let event = apart.adopt(batch, &self.event);
            apart.set_events(&[event]);
            self.context = Context::Apart(Box::new(apart));
        }
        self.event = self.event.with_raw(Span::default());
    }

    /// Returns the memory of the message, and of those that it holds, in bytes.
    pub(in crate::processor) fn footprint(&self) -> usize {
        let context = match &self.context {
            Context::Apart(apart) => size_of::<Batch>() + apart.footprint(),
            Context::Here | Context::None => 0,
        };
        let held: usize = self.held.iter().map(Self::footprint).sum();
        size_of::<Self>() + self.text.capacity() + context + held
    }
}

/// Returns `event` with a range of its payload.
pub(in crate::processor) fn crop(event: &Event, range: Range<usize>) -> Event {
    let payload = event.raw_span().unwrap_or_default();
    let narrow = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let (start, len) = (payload.start + narrow(range.start), narrow(range.len()));
    event.with_raw(Span { start, len })
}

/// Rejects a message for which the batch has no capacity.
#[cold]
pub(in crate::processor) fn too_large(event: Event) -> Rejected {
    let error = Error::bad_data("cannot add the message: its batch would exceed 4 GiB");
    Rejected { event: event.with_raw(Span::default()), error }
}
