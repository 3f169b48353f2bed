//! What a step hands on besides the events that stay in its batch.

use abi_stable::{StableAbi, std_types::RVec};

use super::{Batch, Event, EventMut, PayloadKind, Span, metadata::Kept};
use crate::error::PluginError;

/// An event that a step could not handle, taken out of its batch. It still points into the
/// buffers of that batch: [`HostBatch::original`](super::HostBatch::original) gives its bytes.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct Rejected {
    /// The event.
    pub event: Event,
    /// Why it was rejected.
    pub error: PluginError,
}

impl Rejected {
    /// How much of an event that was rejected is shown to people, and kept for that, in bytes.
    pub const SHOWN: usize = 4 << 10;
}

/// Events that leave by a port of their own.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct PortBatch {
    /// The position of the port among the operator's own.
    pub port: u16,
    /// The events, in the order that they came.
    pub batch: Batch,
}

/// What becomes of one event. What stays in the batch leaves by `out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays in the batch.
    Keep,
    /// It is dropped on purpose, and counted.
    Discard,
    /// It is held: it leaves the batch, and what becomes of it later is up to the step.
    Hold,
    /// It leaves by the port at this position among the operator's own.
    Port(u16),
    /// It could not be handled: it leaves by `err`.
    Reject(PluginError),
}

/// What a step hands on besides the events that stay in its batch. The runtime keeps one and uses
/// it again.
#[repr(C)]
#[derive(Debug, Default, StableAbi)]
pub struct Output {
    ports: RVec<PortBatch>,
    rejected: RVec<Rejected>,
    discarded: u64,
    created: u64,
    merged: u64,
    /// The number of the batch in hand; zero where the host does not keep track of it.
    batch: u64,
    /// How often that was held, and the numbers of batches that were let go of.
    holds: u64,
    released: RVec<u64>,
    /// Verdicts on the events of the batch in hand; kept for its capacity.
    verdicts: RVec<u16>,
}

/// The batches that something which is held came with: see [`Output::hold`].
#[derive(Debug, Default)]
pub struct Holds(Vec<u64>);

/// In [`Output::verdicts`], beside the ports.
const KEEP: u16 = u16::MAX;
const GONE: u16 = u16::MAX - 1;

impl Output {
    /// The port `out`, for [`Output::send`]: a batch that is sent there goes ahead of what stays in
    /// the batch in hand.
    pub const OUT: u16 = KEEP;

    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a batch out of a port: one of the operator's own, or [`Output::OUT`].
    pub fn send(&mut self, port: u16, batch: Batch) {
        if !batch.is_empty() {
            self.ports.push(PortBatch { port, batch });
        }
    }

    /// Sends an event that could not be handled out of `err`. It is one of the batch that the step
    /// was called with.
    pub fn reject(&mut self, event: impl Into<Event>, error: PluginError) {
        self.rejected.push(Rejected { event: event.into(), error });
    }

    /// As [`Output::reject`], for several.
    pub fn reject_all(&mut self, rejected: impl IntoIterator<Item = Rejected>) {
        self.rejected.extend(rejected);
    }

    /// Says that so many events were dropped on purpose.
    pub fn discard(&mut self, events: usize) {
        self.discarded += events as u64;
    }

    /// Says that so many of the events that are put out were made here, and did not come in: copies,
    /// rows, pieces.
    pub fn create(&mut self, events: usize) {
        self.created += events as u64;
    }

    /// Says that so many events that came in have become part of others that are put out, and are
    /// accounted for with those.
    pub fn merge(&mut self, events: usize) {
        self.merged += events as u64;
    }

    /// Asks for a verdict on every event of `batch`, which may edit the event, and does with all of them
    /// what was said.
    pub fn divert(
        &mut self,
        batch: &mut Batch,
        mut verdict: impl FnMut(&mut EventMut<'_>) -> Verdict,
    ) {
        self.verdicts.clear();
        let mut kept = 0;
        for position in 0..batch.len() {
            let code = match verdict(&mut EventMut::new(batch, position)) {
                Verdict::Keep => {
                    kept += 1;
                    KEEP
                }
                Verdict::Discard => {
                    self.discarded += 1;
                    GONE
                }
                Verdict::Hold => GONE,
                Verdict::Port(port) => port,
                Verdict::Reject(error) => {
                    self.reject(batch.events[position], error);
                    GONE
                }
            };
            self.verdicts.push(code);
        }
        if kept < batch.len() {
            self.sort(batch);
        }
    }

    fn sort(&mut self, batch: &mut Batch) {
        let first = self.ports.len();
        let (mut last, mut origins) = (KEEP, Kept::default());
        let mut kept = 0;
        for position in 0..batch.len() {
            match self.verdicts[position] {
                KEEP => {
                    batch.events[kept] = batch.events[position];
                    kept += 1;
                }
                GONE => {}
                port => {
                    let known = self.ports[first..].iter().position(|other| other.port == port);
                    let index = known.map_or(self.ports.len(), |known| first + known);
                    if known.is_none() {
                        self.ports.push(PortBatch { port, batch: batch.sharing_buffers() });
                    }
                    if last != port {
                        (last, origins) = (port, Kept::default());
                    }
                    let event = batch.events[position];
                    self.ports[index].batch.take_event(batch, event, &mut origins);
                }
            }
        }
        batch.events.truncate(kept);
    }

    /// Keeps the batch in hand unacknowledged, for something that is held of it, until `holds` is
    /// [released](Output::release). To say so again for the same batch changes nothing.
    pub fn hold(&mut self, holds: &mut Holds) {
        if self.batch != 0 && holds.0.last() != Some(&self.batch) {
            holds.0.push(self.batch);
            self.holds += 1;
        }
    }

    /// Says that what was held goes out with this call, or was dropped on purpose: the batches that it
    /// came with are acknowledged as what goes out is.
    pub fn release(&mut self, holds: &mut Holds) {
        self.released.extend(holds.0.drain(..));
    }

    /// Gives the batch in hand its number, which [`Output::hold`] keeps; zero where the host does
    /// not keep track of it.
    #[doc(hidden)]
    pub fn begin(&mut self, batch: u64) {
        (self.batch, self.holds) = (batch, 0);
    }

    /// How many parts of the batch in hand are held.
    pub fn holds(&self) -> u64 {
        self.holds
    }

    /// The numbers of batches that were held, as often as that was said, and are not any more.
    #[doc(hidden)]
    pub fn take_released(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.released.drain(..)
    }

    /// The batches that leave by ports, to be sent there.
    #[doc(hidden)]
    pub fn take_ports(&mut self) -> impl Iterator<Item = PortBatch> + '_ {
        self.ports.drain(..)
    }

    /// What could not be handled, to be seen to.
    #[doc(hidden)]
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        if self.rejected.is_empty() {
            return Vec::new();
        }
        self.rejected.drain(..).collect()
    }

    /// Whether a call has said nothing: its events are those in its batch.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let Self { ports, rejected, discarded, created, merged, holds, released, .. } = self;
        let lists = ports.len() + rejected.len() + released.len();
        lists == 0 && (discarded | created | merged | holds) == 0
    }

    /// How many events were dropped on purpose since this was last asked.
    #[doc(hidden)]
    pub fn take_discarded(&mut self) -> usize {
        usize::try_from(std::mem::take(&mut self.discarded)).unwrap_or(usize::MAX)
    }

    /// How many events were made since this was last asked.
    #[doc(hidden)]
    pub fn take_created(&mut self) -> usize {
        usize::try_from(std::mem::take(&mut self.created)).unwrap_or(usize::MAX)
    }

    /// How many events have become part of others since this was last asked.
    #[doc(hidden)]
    pub fn take_merged(&mut self) -> usize {
        usize::try_from(std::mem::take(&mut self.merged)).unwrap_or(usize::MAX)
    }

    /// Forgets all events and their numbers, but not which batches were held or let go of.
    pub fn clear(&mut self) {
        self.ports.clear();
        self.rejected.clear();
        (self.discarded, self.created, self.merged) = (0, 0, 0);
    }

    /// The events of the batches that leave by ports.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.ports.iter().map(|port| &port.batch)
    }

    /// The batches that leave by ports.
    pub fn ports(&self) -> &[PortBatch] {
        &self.ports
    }

    /// What could not be handled.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }
}

impl Batch {
    /// An empty batch with the same buffers.
    pub(super) fn sharing_buffers(&self) -> Self {
        let (events, values) = (RVec::new(), RVec::new());
        Self { events, values, shared: self.shared.clone(), limit: self.limit, pull: self.pull }
    }

    /// Takes an event over from a batch with the same buffers. Its payload is moved, and what is left is
    /// `null`; metadata and origin may be shared and are copied.
    pub(super) fn take_event(&mut self, from: &mut Self, mut event: Event, kept: &mut Kept) {
        if event.kind == PayloadKind::VALUE
            && let Some(value) = from.values.get_mut(event.payload.start as usize)
        {
            let index = self.keep(std::mem::take(value)) - 1;
            event.payload = Span { start: index, len: 0 };
        }
        kept.adopt_values(&mut event, from, &mut self.values);
        self.events.push(event);
    }

    /// As [`Batch::take_event`], but that the payload is copied where it is a value of its own.
    pub(super) fn copy_event(&mut self, from: &Self, mut event: Event, kept: &mut Kept) {
        if event.kind == PayloadKind::VALUE
            && let Some(value) = from.values.get(event.payload.start as usize)
        {
            let index = self.keep(value.clone()) - 1;
            event.payload = Span { start: index, len: 0 };
        }
        kept.adopt_values(&mut event, from, &mut self.values);
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Output, Verdict};
    use crate::{error::PluginError, literal};

    fn numbers(count: u64) -> Batch {
        let mut batch = Batch::new();
        for number in 0..count {
            batch.stream(number).push(&number).unwrap();
            batch.set_metadata(batch.len() - 1, literal!({ "n": number }));
        }
        batch.set_origin("here");
        batch
    }

    fn seen(batch: &Batch) -> Vec<String> {
        let text = |event| {
            let (value, metadata) = (batch.value(event).unwrap(), batch.metadata(event).unwrap());
            format!("{value} {metadata} {}", batch.origin(event).unwrap())
        };
        batch.events().iter().map(text).collect()
    }

    #[test]
    fn every_event_goes_where_its_verdict_says_with_all_that_belongs_to_it() {
        let mut batch = numbers(8);
        let mut output = Output::new();
        output.divert(&mut batch, |event| {
            let number = event.get().stream();
            if number % 2 == 1 {
                *event.value_mut().unwrap() = literal!({ "edited": number });
            }
            match number {
                0 | 5 => Verdict::Keep,
                1 | 4 => Verdict::Port(0),
                2 => Verdict::Discard,
                3 => Verdict::Reject(PluginError::bad_data("odd")),
                _ => Verdict::Port(3),
            }
        });
        assert_eq!(seen(&batch), [r#"0 {"n":0} here"#, r#"{"edited":5} {"n":5} here"#]);
        assert_eq!(output.rejected()[0].event.stream, 3);
        assert_eq!(output.take_discarded(), 1);
        let ports: Vec<_> = output.take_ports().map(|out| (out.port, seen(&out.batch))).collect();
        let expected = [
            (0, vec![r#"{"edited":1} {"n":1} here"#, r#"4 {"n":4} here"#]),
            (3, vec![r#"6 {"n":6} here"#, r#"{"edited":7} {"n":7} here"#]),
        ];
        let expected =
            expected.map(|(port, seen)| (port, seen.into_iter().map(str::to_owned).collect()));
        assert_eq!(ports, expected);
        batch.validate().unwrap();
    }

    #[test]
    fn a_batch_that_stays_whole_is_not_touched() {
        let mut batch = numbers(3);
        let before = batch.events().as_ptr();
        let mut output = Output::new();
        output.divert(&mut batch, |_| Verdict::Keep);
        assert_eq!((batch.len(), batch.events().as_ptr()), (3, before));
        assert!(output.ports().is_empty() && output.take_rejected().is_empty());
    }
}
