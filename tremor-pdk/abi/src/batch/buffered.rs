//! Counts the events that an operator buffers, by the batches in which they arrived.

use std::{cmp::Ordering, collections::VecDeque};

use abi_stable::StableAbi;

use super::{Batch, Event, EventMut, Output, StreamKey, Verdict, output::Failed};
use crate::error::PluginError;

/// The number of buffered events that arrived in one batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Share {
    /// Number of the batch; zero if the host does not number batches.
    pub batch: u64,
    /// Number of events.
    pub events: u64,
}

/// Proof that a [`Buffered`] has absorbed an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absorbed(());

/// A counter of the events that an operator buffers, which also records the batches in which they arrived. A `Buffered`
/// does not contain the events.
///
/// An operator has one `Buffered` for each event that it will emit, for example for each window, session or key. The
/// absorbed events are acknowledged to their sources together with the events that replace them
/// ([`emit`](Buffered::emit), [`emit_to`](Buffered::emit_to), [`emit_events`](Buffered::emit_events)), or when they are
/// [discarded](Buffered::discard). After every call, the runtime checks that the operator has accounted for every
/// event.
///
/// Dropping a `Buffered` that is not empty acknowledges nothing: its events stay buffered until the flow ends, and then
/// fail.
///
/// ```
/// # use tremor_abi::{batch::{Batch, Buffered, Output}, error::PluginError};
/// # fn example(batch: &mut Batch, output: &mut Output) -> Result<(), PluginError> {
/// # let mut buffered = Buffered::new();
/// # let mut total = 0;
/// for event in &*batch {
///     total += event.value().and_then(|value| value.as_u64()).unwrap_or_default();
/// }
/// buffered.absorb_all(batch, output);
/// if buffered.len() >= 1_000 {
///     buffered.emit(output, &total)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Buffered {
    /// Shares in the order in which their events were absorbed.
    shares: VecDeque<Share>,
    events: u64,
    /// Latest ingest time of an event, in ns since the Unix epoch.
    latest_ns: u64,
    /// The stream of all events; `None` if there are several streams, or no event.
    stream: Option<StreamKey>,
}

impl Buffered {
    /// Creates a `Buffered` without events.
    pub const fn new() -> Self {
        Self { shares: VecDeque::new(), events: 0, latest_ns: 0, stream: None }
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        usize::try_from(self.events).unwrap_or(usize::MAX)
    }

    /// Returns whether no event is absorbed.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Absorbs an event within [`Output::divert`], and returns the verdict for the event.
    ///
    /// The closure has to return this verdict. The event is then removed from the batch, so first copy the contents
    /// that you need later: a value, or the whole event with [`Batch::push_event`].
    ///
    /// ```
    /// # use tremor_abi::batch::{Batch, Buffered, Output, Verdict};
    /// # fn example(batch: &mut Batch, output: &mut Output) {
    /// # let (mut buffered, mut sum) = (Buffered::new(), 0);
    /// output.divert(batch, |event| match event.value().and_then(|value| value.as_u64()) {
    ///     Some(number) => {
    ///         sum += number;
    ///         buffered.absorb(event)
    ///     }
    ///     None => Verdict::Keep,
    /// });
    /// # }
    /// ```
    #[must_use = "return it from the closure of `Output::divert`"]
    pub fn absorb(&mut self, event: &EventMut<'_>) -> Verdict {
        let (batch, event) = event.event_of_call();
        self.absorb_event(batch, event);
        Verdict::Absorb(Absorbed(()))
    }

    /// Absorbs all events of `batch`, the batch of the call, which is empty afterwards. Returns the events, for
    /// operators that emit them later.
    pub fn absorb_all(&mut self, batch: &mut Batch, output: &mut Output) -> Batch {
        let taken = std::mem::take(batch);
        let number = output.absorb(taken.len());
        taken.events().iter().for_each(|event| self.absorb_event(number, event));
        taken
    }

    /// Emits one event, which replaces all absorbed events, by port `out`.
    ///
    /// The new event has the latest ingest time of the absorbed events, and their stream if they all belong to the same
    /// stream. Edit the returned event to set another time or metadata. Emitted events leave before the events that
    /// remain in the batch of the call. If nothing was absorbed, the event counts as [created](Output::create).
    ///
    /// # Errors
    /// Returns an error of kind "bad data" if the value cannot be stored in a document; the events then stay absorbed.
    pub fn emit<'o>(
        &mut self,
        output: &'o mut Output,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'o>, PluginError> {
        self.emit_to(output, Output::OUT, value)
    }

    /// Emits one event by `port`, as [`Buffered::emit`] does by `out`.
    ///
    /// # Errors
    /// Returns the same errors as [`Buffered::emit`].
    pub fn emit_to<'o>(
        &mut self,
        output: &'o mut Output,
        port: u16,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'o>, PluginError> {
        let made = output.write(port, value)?;
        output.created(1);
        output.merged(self.len());
        let (latest_ns, stream) = (self.latest_ns, self.stream);
        self.release(output);
        let mut event = output.event(made);
        event.set_ingest_ns(latest_ns);
        event.set_stream(stream);
        Ok(event)
    }

    /// Emits `events` by `port` in place of the absorbed events. `events` may be the events that
    /// [`Buffered::absorb_all`] returned, or any number of other events. If `events` is empty, the absorbed events are
    /// discarded.
    pub fn emit_events(&mut self, output: &mut Output, port: u16, events: Batch) {
        self.exchange(output, events.len());
        output.send(port, events);
    }

    /// Rejects the absorbed events: sends `events` with `error` to port `err` instead of them. `events` may be the
    /// absorbed events themselves or any number of other events. If `events` is empty, the absorbed events are
    /// discarded.
    pub fn reject(&mut self, output: &mut Output, events: Batch, error: PluginError) {
        self.exchange(output, events.len());
        output.fail(Failed { batch: events, error });
    }

    /// Discards the absorbed events, which are then acknowledged.
    pub fn discard(&mut self, output: &mut Output) {
        output.discard(self.len());
        self.release(output);
    }

    /// Moves the first `events` absorbed events to a new `Buffered`, or all if there are fewer.
    #[must_use = "events that are dropped are never acknowledged"]
    pub fn take(&mut self, events: usize) -> Self {
        let mut left = (events as u64).min(self.events);
        let mut taken = Self { latest_ns: self.latest_ns, stream: self.stream, ..Self::new() };
        self.events -= left;
        while left > 0
            && let Some(first) = self.shares.front_mut()
        {
            let part = Share { events: first.events.min(left), ..*first };
            first.events -= part.events;
            if first.events == 0 {
                self.shares.pop_front();
            }
            left -= part.events;
            taken.add(part);
        }
        taken
    }

    /// Moves the absorbed events of `other` to `self`, after those of `self`.
    pub fn append(&mut self, mut other: Self) {
        if other.is_empty() {
            return;
        }
        let (is_first, stream) = (self.is_empty(), other.stream);
        other.shares.drain(..).for_each(|share| self.add(share));
        self.latest_ns = self.latest_ns.max(other.latest_ns);
        self.stream = stream.filter(|stream| is_first || self.stream == Some(*stream));
    }

    /// Records that `events` events leave in place of the absorbed events, and releases the absorbed events.
    fn exchange(&mut self, output: &mut Output, events: usize) {
        match self.len().cmp(&events) {
            Ordering::Less => output.created(events - self.len()),
            // Without events that replace them, the absorbed events are discarded.
            Ordering::Greater if events == 0 => output.discard(self.len()),
            Ordering::Equal => {}
            Ordering::Greater => output.merged(self.len() - events),
        }
        self.release(output);
    }

    fn release(&mut self, output: &mut Output) {
        output.release(self.shares.drain(..));
        self.events = 0;
    }

    fn absorb_event(&mut self, batch: u64, event: &Event) {
        let (stream, ingest_ns) = (event.stream_key(), event.ingest_ns);
        if self.is_empty() {
            (self.stream, self.latest_ns) = (Some(stream), ingest_ns);
        } else {
            self.stream = self.stream.filter(|all| *all == stream);
            self.latest_ns = self.latest_ns.max(ingest_ns);
        }
        self.add(Share { batch, events: 1 });
    }

    fn add(&mut self, share: Share) {
        self.events += share.events;
        match self.shares.back_mut() {
            Some(last) if last.batch == share.batch => last.events += share.events,
            _ => self.shares.push_back(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Buffered, Output, Share, StreamKey, Verdict};
    use crate::error::PluginError;

    /// Creates a batch with an event for each stream, whose payload and time are the number of the stream.
    fn batch(streams: &[u64]) -> Batch {
        let mut batch = Batch::new();
        for stream in streams {
            batch.stream(*stream).push(stream).unwrap();
            let event = batch.events_mut().last_mut().unwrap();
            (event.source, event.ingest_ns) = (1, *stream);
        }
        batch
    }

    /// Returns the events that leave by ports, with their port, and all numbers that the host compares.
    fn sent(output: &mut Output) -> (Vec<String>, [u64; 4]) {
        let text = |port: u16, batch: &Batch| {
            let text = |event| format!("{port} {}", batch.value(event).unwrap());
            batch.events().iter().map(text).collect::<Vec<_>>()
        };
        let all = output.take_ports().flat_map(|sent| text(sent.port, &sent.batch)).collect();
        let numbers = [
            output.take_absorbed(),
            output.take_released().map(|share| share.events).sum(),
            output.take_created() as u64,
            output.take_merged() as u64,
        ];
        (all, numbers)
    }

    fn absorbed(output: &mut Output, number: u64, streams: &[u64]) -> Buffered {
        output.begin(number);
        let mut buffered = Buffered::new();
        assert_eq!(buffered.absorb_all(&mut batch(streams), output).len(), streams.len());
        buffered
    }

    #[test]
    fn emitted_event_has_latest_time_and_common_stream() {
        let mut output = Output::new();
        let mut event_of = |streams: &[u64]| {
            let mut buffered = absorbed(&mut output, 1, streams);
            let event = *buffered.emit(&mut output, &"sum").unwrap().event_of_call().1;
            assert!(buffered.is_empty());
            (event.ingest_ns, event.stream_key())
        };
        assert_eq!(event_of(&[3, 3]), (3, StreamKey::new(1, 3)));
        assert_eq!(event_of(&[3, 5, 3]), (5, StreamKey::new(0, 0)));
        let (events, numbers) = sent(&mut output);
        assert_eq!(events, [r#"65535 "sum""#; 2]);
        // `begin` discards counts of absorbed and released events of earlier calls that were not taken.
        assert_eq!(numbers, [3, 3, 2, 5]);
    }

    #[test]
    fn divert_absorbs_some_events_and_keeps_others() {
        let mut output = Output::new();
        output.begin(7);
        let (mut even, mut processed) = (Buffered::new(), batch(&[1, 2, 3, 4]));
        output.divert(&mut processed, |event| match event.get().stream().number() % 2 {
            0 => even.absorb(event),
            _ => Verdict::Keep,
        });
        assert_eq!((processed.len(), even.len()), (2, 2));
        assert_eq!(even.shares, [Share { batch: 7, events: 2 }]);
        assert_eq!(sent(&mut output).1, [2, 0, 0, 0]);
        even.discard(&mut output);
        assert_eq!(output.take_discarded(), 2);
        let released: Vec<_> = output.take_released().collect();
        assert_eq!(released, [Share { batch: 7, events: 2 }]);
    }

    #[test]
    fn more_or_fewer_events_replace_absorbed_ones() {
        let mut output = Output::new();
        for (events, created, merged) in [(1, 0, 2), (3, 0, 0), (5, 2, 0)] {
            let mut buffered = absorbed(&mut output, 1, &[1, 2, 3]);
            let others: Vec<_> = (10..10 + events).collect();
            buffered.emit_events(&mut output, 4, batch(&others));
            let (texts, numbers) = sent(&mut output);
            assert_eq!((texts.len(), &texts[0][..]), (others.len(), "4 10"));
            assert_eq!(numbers, [3, 3, created, merged]);
        }
        let mut buffered = absorbed(&mut output, 1, &[1, 2, 3]);
        buffered.reject(&mut output, batch(&[2]), PluginError::bad_data("too late"));
        assert_eq!(output.failed()[0].batch.len(), 1);
        assert_eq!(sent(&mut output).1, [3, 3, 0, 2]);
    }

    #[test]
    fn first_events_are_taken_with_their_batches() {
        let mut output = Output::new();
        let mut buffered = absorbed(&mut output, 1, &[1, 1]);
        buffered.append(absorbed(&mut output, 2, &[1, 1, 1]));
        buffered.append(Buffered::new());
        let share = |batch, events| Share { batch, events };
        let first = buffered.take(3);
        assert_eq!((first.len(), buffered.len()), (3, 2));
        assert_eq!(first.shares, [share(1, 2), share(2, 1)]);
        assert_eq!(buffered.shares, [share(2, 2)]);
        assert_eq!((buffered.stream, buffered.take(9).len()), (Some(StreamKey::new(1, 1)), 2));
        assert!(buffered.is_empty() && buffered.shares.is_empty());
    }

    #[test]
    fn value_that_cannot_be_written_changes_nothing() {
        let mut output = Output::new();
        let mut buffered = absorbed(&mut output, 1, &[1]);
        let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
        assert!(buffered.emit(&mut output, &unwritable).is_err());
        assert_eq!(buffered.len(), 1);
        assert_eq!(sent(&mut output), (vec![], [1, 0, 0, 0]));
    }
}
