//! Accounting for the events that an operator buffers.

use std::{cmp::Ordering, collections::VecDeque};

use abi_stable::StableAbi;

use super::{Batch, Event, EventMut, Output, StreamKey, Verdict, output::Failed};
use crate::error::PluginError;

/// A number of buffered events that came with the same batch.
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

/// The accounting of events that an operator keeps for later: their number, and the batches that they
/// came with.
///
/// An operator has one for each thing that it emits later: a window, a session, a key. The events are
/// acknowledged to their sources together with what [`emit`](Buffered::emit) and its siblings send, or when
/// they are [discarded](Buffered::discard). The runtime counts what was absorbed and emitted, and compares
/// the numbers after every call.
///
/// A value that is dropped while it is not empty acknowledges nothing: its events stay buffered until the
/// flow ends, and fail then.
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
    /// In the order in which events were absorbed.
    shares: VecDeque<Share>,
    events: u64,
    /// The latest time of an event, in ns since the Unix epoch.
    latest_ns: u64,
    /// The stream of all events; `None` if there are several streams, or no event.
    stream: Option<StreamKey>,
}

impl Buffered {
    /// Makes one without events.
    pub const fn new() -> Self {
        Self { shares: VecDeque::new(), events: 0, latest_ns: 0, stream: None }
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        usize::try_from(self.events).unwrap_or(usize::MAX)
    }

    /// Returns whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Absorbs an event within [`Output::divert`], and returns the verdict for it.
    ///
    /// The closure has to return this verdict. The event leaves the batch, so copy what you need of it
    /// before: a value, or all of it with [`Batch::push_event`].
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
        let (batch, event) = event.in_hand();
        self.absorb_event(batch, event);
        Verdict::Absorb(Absorbed(()))
    }

    /// Absorbs all events of the batch in hand, and returns them for operators that emit the events
    /// themselves.
    pub fn absorb_all(&mut self, batch: &mut Batch, output: &mut Output) -> Batch {
        let taken = std::mem::take(batch);
        let number = output.absorb(taken.len());
        taken.events().iter().for_each(|event| self.absorb_event(number, event));
        taken
    }

    /// Emits one event, which stands for all that were absorbed, out of port `out`.
    ///
    /// The new event has the time of the latest of them, and their stream if all are of one. The result can
    /// be edited, to set another time or metadata. Events that are emitted leave ahead of those that stay in
    /// the batch in hand. If nothing was absorbed, the event counts as [created](Output::create).
    ///
    /// # Errors
    /// Bad data, if the value does not fit a document. The events stay absorbed then.
    pub fn emit<'o>(
        &mut self,
        output: &'o mut Output,
        value: &(impl serde::Serialize + ?Sized),
    ) -> Result<EventMut<'o>, PluginError> {
        self.emit_to(output, Output::OUT, value)
    }

    /// Emits one event, as [`Buffered::emit`] does, out of a port.
    ///
    /// # Errors
    /// The errors of [`Buffered::emit`].
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

    /// Emits events out of a port in exchange for those that were absorbed: the same ones, as
    /// [`Buffered::absorb_all`] returned them, or more or fewer. If there are none, the absorbed events are
    /// discarded.
    pub fn emit_events(&mut self, output: &mut Output, port: u16, events: Batch) {
        self.exchange(output, events.len());
        output.send(port, events);
    }

    /// Rejects what was absorbed: `events`, the same ones or an event that stands for them, leave by `err`.
    /// If there are none, the absorbed events are discarded.
    pub fn reject(&mut self, output: &mut Output, events: Batch, error: PluginError) {
        self.exchange(output, events.len());
        output.fail(Failed { batch: events, error });
    }

    /// Drops the events on purpose: they are counted as discarded, and acknowledged.
    pub fn discard(&mut self, output: &mut Output) {
        output.discard(self.len());
        self.release(output);
    }

    /// Takes the first `events` events out, or all if there are fewer.
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

    /// Adds the events of another value after those of this one.
    pub fn append(&mut self, mut other: Self) {
        if other.is_empty() {
            return;
        }
        let (is_first, stream) = (self.is_empty(), other.stream);
        other.shares.drain(..).for_each(|share| self.add(share));
        self.latest_ns = self.latest_ns.max(other.latest_ns);
        self.stream = stream.filter(|stream| is_first || self.stream == Some(*stream));
    }

    /// Counts the absorbed events as `events` others that leave.
    fn exchange(&mut self, output: &mut Output, events: usize) {
        match self.len().cmp(&events) {
            Ordering::Less => output.created(events - self.len()),
            // No other event stands for them.
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

    /// A batch with an event of each stream, whose payload and time are its number.
    fn batch(streams: &[u64]) -> Batch {
        let mut batch = Batch::new();
        for stream in streams {
            batch.stream(*stream).push(stream).unwrap();
            let event = batch.events_mut().last_mut().unwrap();
            (event.source, event.ingest_ns) = (1, *stream);
        }
        batch
    }

    /// The events that leave by ports, with their time, and all numbers that the host compares.
    fn sent(output: &mut Output) -> (Vec<String>, [u64; 4]) {
        let text = |port: u16, batch: &Batch| {
            let text = |event| format!("{port} {}", batch.value(event).unwrap());
            batch.events().iter().map(text).collect::<Vec<_>>()
        };
        let all = output.take_ports().flat_map(|it| text(it.port, &it.batch)).collect();
        let numbers = [
            output.take_absorbed(),
            output.take_released().map(|share| share.events).sum(),
            output.take_created() as u64,
            output.take_merged() as u64,
        ];
        (all, numbers)
    }

    fn of(output: &mut Output, number: u64, streams: &[u64]) -> Buffered {
        output.begin(number);
        let mut buffered = Buffered::new();
        assert_eq!(buffered.absorb_all(&mut batch(streams), output).len(), streams.len());
        buffered
    }

    #[test]
    fn emitted_event_has_latest_time_and_common_stream() {
        let mut output = Output::new();
        let mut event_of = |streams: &[u64]| {
            let mut buffered = of(&mut output, 1, streams);
            let event = *buffered.emit(&mut output, &"sum").unwrap().in_hand().1;
            assert!(buffered.is_empty());
            (event.ingest_ns, event.stream_key())
        };
        assert_eq!(event_of(&[3, 3]), (3, StreamKey::new(1, 3)));
        assert_eq!(event_of(&[3, 5, 3]), (5, StreamKey::new(0, 0)));
        let (events, numbers) = sent(&mut output);
        assert_eq!(events, [r#"65535 "sum""#; 2]);
        // The next call forgets what was absorbed and released, and nobody has taken.
        assert_eq!(numbers, [3, 3, 2, 5]);
    }

    #[test]
    fn divert_absorbs_some_events_and_keeps_others() {
        let mut output = Output::new();
        output.begin(7);
        let (mut even, mut in_hand) = (Buffered::new(), batch(&[1, 2, 3, 4]));
        output.divert(&mut in_hand, |event| match event.get().stream().number() % 2 {
            0 => even.absorb(event),
            _ => Verdict::Keep,
        });
        assert_eq!((in_hand.len(), even.len()), (2, 2));
        assert_eq!(even.shares, [Share { batch: 7, events: 2 }]);
        assert_eq!(sent(&mut output).1, [2, 0, 0, 0]);
        even.discard(&mut output);
        assert_eq!(output.take_discarded(), 2);
        let released: Vec<_> = output.take_released().collect();
        assert_eq!(released, [Share { batch: 7, events: 2 }]);
    }

    #[test]
    fn events_are_exchanged_for_more_or_fewer() {
        let mut output = Output::new();
        for (events, created, merged) in [(1, 0, 2), (3, 0, 0), (5, 2, 0)] {
            let mut buffered = of(&mut output, 1, &[1, 2, 3]);
            let others: Vec<_> = (10..10 + events).collect();
            buffered.emit_events(&mut output, 4, batch(&others));
            let (texts, numbers) = sent(&mut output);
            assert_eq!((texts.len(), &texts[0][..]), (others.len(), "4 10"));
            assert_eq!(numbers, [3, 3, created, merged]);
        }
        let mut buffered = of(&mut output, 1, &[1, 2, 3]);
        buffered.reject(&mut output, batch(&[2]), PluginError::bad_data("too late"));
        assert_eq!(output.failed()[0].batch.len(), 1);
        assert_eq!(sent(&mut output).1, [3, 3, 0, 2]);
    }

    #[test]
    fn first_events_are_taken_with_their_batches() {
        let mut output = Output::new();
        let mut buffered = of(&mut output, 1, &[1, 1]);
        buffered.append(of(&mut output, 2, &[1, 1, 1]));
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
        let mut buffered = of(&mut output, 1, &[1]);
        let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
        assert!(buffered.emit(&mut output, &unwritable).is_err());
        assert_eq!(buffered.len(), 1);
        assert_eq!(sent(&mut output), (vec![], [1, 0, 0, 0]));
    }
}
