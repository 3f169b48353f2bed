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
    /// Number of bytes that are counted for the message.
    pub(in crate::processor) counted: usize,
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

    /// Moves the contents of the message out of `batch`.
    pub(in crate::processor) fn park(&mut self, batch: &Batch) {
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

    /// Returns the memory of the message in bytes.
    pub(in crate::processor) fn footprint(&self) -> usize {
        let context = match &self.context {
            Context::Apart(apart) => size_of::<Batch>() + apart.footprint(),
            Context::Here | Context::None => 0,
        };
        size_of::<Self>() + self.text.capacity() + context
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
