//! What a step hands on besides the events that stay in its batch.

use abi_stable::{StableAbi, std_types::RVec};

use super::{Absorbed, Batch, Event, EventMut, EventRef, PayloadKind, Share, Span, metadata::Kept};
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

/// Buffered events that an operator could not handle after all.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct Failed {
    /// The events.
    pub batch: Batch,
    /// The reason.
    pub error: PluginError,
}

/// What becomes of one event. What stays in the batch leaves by `out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays in the batch.
    Keep,
    /// It is dropped on purpose, and counted.
    Discard,
    /// The event leaves the batch, and a [`Buffered`](super::Buffered) accounts for it:
    /// [`Buffered::absorb`](super::Buffered::absorb) returns this verdict.
    Absorb(Absorbed),
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
    failed: RVec<Failed>,
    discarded: u64,
    created: u64,
    merged: u64,
    /// The number of the batch in hand; zero if the host does not number batches.
    batch: u64,
    /// Events of the batch in hand that were absorbed by a [`Buffered`](super::Buffered).
    absorbed: u64,
    /// Events that were absorbed, in this call or before, and are not buffered any more.
    released: RVec<Share>,
    /// Verdicts on the events of the batch in hand; kept for its capacity.
    verdicts: RVec<u16>,
}

/// In [`Output::verdicts`], beside the ports.
const KEEP: u16 = u16::MAX;
const GONE: u16 = u16::MAX - 1;

/// Edited values in a batch that written events are added to, beyond which another batch is begun:
/// weighing a batch takes time linear in these.
const MOST_VALUES: usize = 64;

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

    /// Discards all events of a batch: it is empty afterwards.
    pub fn discard_all(&mut self, batch: &mut Batch) {
        self.retain(batch, |_| false);
    }

    /// Keeps the events for which `keep` returns `true`, and discards the others.
    pub fn retain(&mut self, batch: &mut Batch, keep: impl FnMut(EventRef<'_>) -> bool) {
        let discarded = batch.retain(keep);
        self.discard(discarded);
    }

    /// Emits an event that was made here out of port `out`, such as a copy. Events that are made of others
    /// are emitted with [`Buffered::emit`](super::Buffered::emit) or
    /// [`Buffered::emit_events`](super::Buffered::emit_events).
    ///
    /// The event leaves ahead of those that stay in the batch in hand. The result can be edited.
    ///
    /// # Errors
    /// Bad data, if the value does not fit a document; nothing is emitted then.
    pub fn create(
        &mut self,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'_>, PluginError> {
        self.create_to(Self::OUT, value)
    }

    /// Emits an event that was made here, as [`Output::create`] does, out of a port.
    ///
    /// # Errors
    /// The errors of [`Output::create`].
    pub fn create_to(
        &mut self,
        port: u16,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'_>, PluginError> {
        let made = self.write(port, value)?;
        self.created(1);
        Ok(self.event(made))
    }

    /// Writes a value to a batch of a port, and returns the index of that batch.
    pub(super) fn write(
        &mut self,
        port: u16,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<usize, PluginError> {
        let last = self.ports.iter().rposition(|it| it.port == port);
        let last = last.filter(|last| self.ports[*last].batch.takes_more());
        let index = last.unwrap_or(self.ports.len());
        if last.is_none() {
            self.ports.push(PortBatch { port, batch: Batch::new() });
        }
        let written = self.ports[index].batch.push(value);
        if written.is_err() && last.is_none() {
            self.ports.pop();
        }
        written.map(|()| index)
    }

    /// Returns the last event of a batch that [`Output::write`] has written to.
    pub(super) fn event(&mut self, index: usize) -> EventMut<'_> {
        let batch = &mut self.ports[index].batch;
        let last = batch.len() - 1;
        EventMut::new(batch, last)
    }

    /// Counts events that leave, and neither came in nor were buffered.
    pub(super) fn created(&mut self, events: usize) {
        self.created += events as u64;
    }

    /// Counts events that have become part of others that leave.
    pub(super) fn merged(&mut self, events: usize) {
        self.merged += events as u64;
    }

    /// Counts events that were absorbed, and returns the number of the batch in hand.
    pub(super) fn absorb(&mut self, events: usize) -> u64 {
        self.absorbed += events as u64;
        self.batch
    }

    /// Notes events that are not buffered any more.
    pub(super) fn release(&mut self, shares: impl IntoIterator<Item = Share>) {
        self.released.extend(shares);
    }

    /// Sends buffered events out of `err`.
    pub(super) fn fail(&mut self, failed: Failed) {
        if !failed.batch.is_empty() {
            self.failed.push(failed);
        }
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
            let code = match verdict(&mut EventMut::of_call(batch, position, self.batch)) {
                Verdict::Keep => {
                    kept += 1;
                    KEEP
                }
                Verdict::Discard => {
                    self.discarded += 1;
                    GONE
                }
                Verdict::Absorb(_) => {
                    self.absorbed += 1;
                    GONE
                }
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

    pub(crate) fn begin(&mut self, batch: u64) {
        (self.batch, self.absorbed) = (batch, 0);
        self.released.clear();
    }

    pub(crate) fn take_absorbed(&mut self) -> u64 {
        std::mem::take(&mut self.absorbed)
    }

    pub(crate) fn take_released(&mut self) -> impl Iterator<Item = Share> + '_ {
        self.released.drain(..)
    }

    pub(crate) fn take_failed(&mut self) -> impl Iterator<Item = Failed> + '_ {
        self.failed.drain(..)
    }

    /// Returns the buffered events that could not be handled.
    pub fn failed(&self) -> &[Failed] {
        &self.failed
    }

    pub(crate) fn take_ports(&mut self) -> impl Iterator<Item = PortBatch> + '_ {
        self.ports.drain(..)
    }

    pub(crate) fn take_rejected(&mut self) -> Vec<Rejected> {
        if self.rejected.is_empty() {
            return Vec::new();
        }
        self.rejected.drain(..).collect()
    }

    /// Whether a call has said nothing: its events are those in its batch.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let Self {
            ports, rejected, failed, discarded, created, merged, absorbed, released, ..
        } = self;
        let lists = ports.len() + rejected.len() + failed.len() + released.len();
        lists == 0 && (discarded | created | merged | absorbed) == 0
    }

    pub(crate) fn take_discarded(&mut self) -> usize {
        usize::try_from(std::mem::take(&mut self.discarded)).unwrap_or(usize::MAX)
    }

    pub(crate) fn take_created(&mut self) -> usize {
        usize::try_from(std::mem::take(&mut self.created)).unwrap_or(usize::MAX)
    }

    pub(crate) fn take_merged(&mut self) -> usize {
        usize::try_from(std::mem::take(&mut self.merged)).unwrap_or(usize::MAX)
    }

    /// Forgets all events and their numbers, but not what was absorbed and released.
    pub fn clear(&mut self) {
        self.ports.clear();
        self.rejected.clear();
        self.failed.clear();
        (self.discarded, self.created, self.merged) = (0, 0, 0);
    }

    pub(crate) fn all_batches(&self) -> impl Iterator<Item = &Batch> {
        self.batches().chain(self.failed.iter().map(|failed| &failed.batch))
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
    /// Returns whether more events can be written to the batch without copying it, and without making it
    /// heavy.
    fn takes_more(&self) -> bool {
        self.values.len() < MOST_VALUES && self.shared.is_unique() && !self.is_heavy()
    }

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
            let number = event.get().stream().number();
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
