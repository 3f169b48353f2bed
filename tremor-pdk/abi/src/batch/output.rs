//! The results of a call of a component, other than the events that stay in its batch.

use abi_stable::{StableAbi, std_types::RVec};

use super::{
    Absorbed, Batch, Event, EventMut, EventRef, PayloadKind, Share, Span, metadata::LastCopied,
};
use crate::error::PluginError;

/// An event that a component could not process and that was removed from its batch. The event still refers to the
/// buffers of that batch: [`HostBatch::original`](super::HostBatch::original) returns its bytes.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct Rejected {
    /// The event.
    pub event: Event,
    /// Cause of the rejection.
    pub error: PluginError,
}

impl Rejected {
    /// Maximum number of bytes of a rejected event that error messages and dead letters contain.
    pub const SHOWN: usize = 4 << 10;
}

/// Events that leave by a port of the operator.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct PortBatch {
    /// Position of the port in the list that the operator's `ports` returns, or [`Output::OUT`].
    pub port: u16,
    /// The events, in the order in which they arrived.
    pub batch: Batch,
}

/// Buffered events that an operator could not process.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct Failed {
    /// The events.
    pub batch: Batch,
    /// Cause of the failure.
    pub error: PluginError,
}

/// The decision about an event in [`Output::divert`]. Events that stay in the batch leave by `out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event stays in the batch.
    Keep,
    /// The event is dropped on purpose, and counted.
    Discard,
    /// The event is removed from the batch, and a [`Buffered`](super::Buffered) accounts for it:
    /// [`Buffered::absorb`](super::Buffered::absorb) returns this verdict.
    Absorb(Absorbed),
    /// The event leaves by the port at this position in the list that the operator's `ports` returns.
    Port(u16),
    /// The event could not be processed and leaves by `err`.
    Reject(PluginError),
}

/// The results of a call of a component, other than the events that stay in its batch. The runtime reuses the object
/// for every call.
#[repr(C)]
#[derive(Debug, Default, StableAbi)]
pub struct Output {
    ports: RVec<PortBatch>,
    rejected: RVec<Rejected>,
    failed: RVec<Failed>,
    discarded: u64,
    created: u64,
    merged: u64,
    /// Number of the batch that is being processed; zero if the host does not number batches.
    batch: u64,
    /// Number of events of the batch that a [`Buffered`](super::Buffered) absorbed.
    absorbed: u64,
    /// Events that were absorbed, in this call or an earlier call, and are no longer buffered.
    released: RVec<Share>,
    /// Verdicts on the events of the batch; the list is reused for its capacity.
    verdicts: RVec<u16>,
}

/// Code of the verdict for an event that stays in the batch. Codes below [`GONE`] are ports.
const KEEP: u16 = u16::MAX;
/// Code of the verdict for an event that is removed from the batch and is not sent by a port.
const GONE: u16 = u16::MAX - 1;

/// Maximum number of edited values in a batch to which new events are written. Further events are written to another
/// batch, because the time to compute the weight of a batch is linear in the number of these values.
const MAX_VALUES: usize = 64;

impl Output {
    /// The port `out`, for [`Output::send`]. Batches that are sent by this port leave before the events that stay in
    /// the batch of the call.
    pub const OUT: u16 = KEEP;

    /// Creates an empty output.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a batch by a port: a position in the list that the operator's `ports` returns, or [`Output::OUT`].
    pub fn send(&mut self, port: u16, batch: Batch) {
        if !batch.is_empty() {
            self.ports.push(PortBatch { port, batch });
        }
    }

    /// Sends an event by `err` because it could not be processed. The event must belong to the batch of the call. The
    /// caller also has to remove the event from the batch; [`Output::divert`] does both.
    pub fn reject(&mut self, event: impl Into<Event>, error: PluginError) {
        self.rejected.push(Rejected { event: event.into(), error });
    }

    /// Rejects several events as [`Output::reject`] does.
    pub fn reject_all(&mut self, rejected: impl IntoIterator<Item = Rejected>) {
        self.rejected.extend(rejected);
    }

    /// Counts `events` events that were dropped on purpose.
    pub fn discard(&mut self, events: usize) {
        self.discarded += events as u64;
    }

    /// Discards all events of a batch, which is empty afterwards.
    pub fn discard_all(&mut self, batch: &mut Batch) {
        self.retain(batch, |_| false);
    }

    /// Keeps the events for which `keep` returns `true`, and discards the others.
    pub fn retain(&mut self, batch: &mut Batch, keep: impl FnMut(EventRef<'_>) -> bool) {
        let discarded = batch.retain(keep);
        self.discard(discarded);
    }

    /// Emits a new event by port `out`, such as a copy. To emit events that replace absorbed events, use
    /// [`Buffered::emit`](super::Buffered::emit) or [`Buffered::emit_events`](super::Buffered::emit_events).
    ///
    /// The new event leaves before the events that stay in the batch of the call. The returned event can be edited.
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the value cannot be stored in a document; then nothing is emitted.
    pub fn create(
        &mut self,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'_>, PluginError> {
        self.create_to(Self::OUT, value)
    }

    /// Emits a new event by `port`, as [`Output::create`] does by `out`.
    ///
    /// # Errors
    /// Returns the same errors as [`Output::create`].
    pub fn create_to(
        &mut self,
        port: u16,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'_>, PluginError> {
        let made = self.write(port, value)?;
        self.created(1);
        Ok(self.event(made))
    }

    /// Writes a value to a batch of a port, and returns the index of the batch.
    pub(super) fn write(
        &mut self,
        port: u16,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<usize, PluginError> {
        let last = self.ports.iter().rposition(|known| known.port == port);
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

    /// Returns the last event of a batch that [`Output::write`] wrote to.
    pub(super) fn event(&mut self, index: usize) -> EventMut<'_> {
        let batch = &mut self.ports[index].batch;
        let last = batch.len() - 1;
        EventMut::new(batch, last)
    }

    /// Counts events that leave in addition to those that arrived or were buffered.
    pub(super) fn created(&mut self, events: usize) {
        self.created += events as u64;
    }

    /// Counts events that were merged into emitted events.
    pub(super) fn merged(&mut self, events: usize) {
        self.merged += events as u64;
    }

    /// Counts absorbed events, and returns the number of the batch that is being processed.
    pub(super) fn absorb(&mut self, events: usize) -> u64 {
        self.absorbed += events as u64;
        self.batch
    }

    /// Records events that are no longer buffered.
    pub(super) fn release(&mut self, shares: impl IntoIterator<Item = Share>) {
        self.released.extend(shares);
    }

    /// Sends buffered events by `err`.
    pub(super) fn fail(&mut self, failed: Failed) {
        if !failed.batch.is_empty() {
            self.failed.push(failed);
        }
    }

    /// Calls `verdict` for every event of `batch`, and then applies all verdicts. `verdict` may edit the event.
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
        let mut events = std::mem::take(&mut batch.events);
        batch.separate_values(&mut events);
        batch.events = events;
        let first = self.ports.len();
        let (mut last, mut origins) = (KEEP, LastCopied::default());
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
                        (last, origins) = (port, LastCopied::default());
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

    /// Returns the buffered events that could not be processed.
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

    /// Returns whether the output contains no result: all events of the call stayed in its batch.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let Self {
            ports, rejected, failed, discarded, created, merged, absorbed, released, ..
        } = self;
        let lists = ports.len() + rejected.len() + failed.len() + released.len();
        lists == 0 && (discarded | created | merged | absorbed) == 0
    }

    /// Returns the maximum number of events that may leave in addition to those of the call: events that were created, or
    /// that replace absorbed events.
    pub(super) fn replacing(&self) -> usize {
        let released = self.released.iter().map(|share| share.events);
        let added = released.fold(self.created, u64::saturating_add);
        usize::try_from(added.saturating_sub(self.merged)).unwrap_or(usize::MAX)
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

    /// Removes all events, and resets the counts of discarded, created and merged events. The counts of absorbed and
    /// released events remain.
    pub fn clear(&mut self) {
        self.ports.clear();
        self.rejected.clear();
        self.failed.clear();
        (self.discarded, self.created, self.merged) = (0, 0, 0);
    }

    pub(crate) fn all_batches(&self) -> impl Iterator<Item = &Batch> {
        self.batches().chain(self.failed.iter().map(|failed| &failed.batch))
    }

    pub(crate) fn all_batches_mut(&mut self) -> impl Iterator<Item = &mut Batch> {
        let failed = self.failed.iter_mut().map(|failed| &mut failed.batch);
        self.ports.iter_mut().map(|port| &mut port.batch).chain(failed)
    }

    /// Returns the batches that leave by ports, without the ports.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.ports.iter().map(|port| &port.batch)
    }

    /// Returns the batches that leave by ports.
    pub fn ports(&self) -> &[PortBatch] {
        &self.ports
    }

    /// Returns the events that could not be processed.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }
}

impl Batch {
    /// Returns whether more events can be written to the batch without copying its buffers or making it heavy.
    fn takes_more(&self) -> bool {
        self.values.len() < MAX_VALUES && self.shared.is_unique() && !self.is_heavy()
    }

    /// Returns an empty batch with the same buffers.
    pub(super) fn sharing_buffers(&self) -> Self {
        let (events, values) = (RVec::new(), RVec::new());
        Self { events, values, shared: self.shared.clone(), limit: self.limit, pull: self.pull }
    }

    /// Moves an event from a batch with the same buffers. An edited payload is moved, which leaves `null` in `from`, so
    /// no two events may have the same ([`Batch::separate_values`]); metadata and origin may be shared with other events
    /// and are copied.
    pub(super) fn take_event(
        &mut self,
        from: &mut Self,
        mut event: Event,
        last_copied: &mut LastCopied,
    ) {
        if event.kind == PayloadKind::VALUE
            && let Some(value) = from.values.get_mut(event.payload.start as usize)
        {
            let index = self.keep(std::mem::take(value)) - 1;
            event.payload = Span { start: index, len: 0 };
        }
        last_copied.adopt_values(&mut event, from, &mut self.values);
        self.events.push(event);
    }

    /// Copies an event from a batch with the same buffers. Unlike [`Batch::take_event`], copies an edited payload
    /// instead of moving it.
    pub(super) fn copy_event(
        &mut self,
        from: &Self,
        mut event: Event,
        last_copied: &mut LastCopied,
    ) {
        if event.kind == PayloadKind::VALUE
            && let Some(value) = from.values.get(event.payload.start as usize)
        {
            let index = self.keep(value.clone()) - 1;
            event.payload = Span { start: index, len: 0 };
        }
        last_copied.adopt_values(&mut event, from, &mut self.values);
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
    fn events_leave_by_verdict_with_metadata_and_origin() {
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
    fn batch_that_keeps_all_events_is_not_rewritten() {
        let mut batch = numbers(3);
        let before = batch.events().as_ptr();
        let mut output = Output::new();
        output.divert(&mut batch, |_| Verdict::Keep);
        assert_eq!((batch.len(), batch.events().as_ptr()), (3, before));
        assert!(output.ports().is_empty() && output.take_rejected().is_empty());
    }
}
