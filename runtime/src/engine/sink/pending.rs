//! Deliveries of a sink that are not completed. A delivery consists of one batch, or of several batches that were
//! joined.

use std::{mem, time::Instant};

use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use crate::engine::{retry::backoff::Attempts, sink::items::Items, tracking::token::InFlight};

/// A delivery that is waiting or in flight.
pub(crate) struct Pending {
    /// Sequence number of the delivery's first batch in the order of arrival.
    pub(super) sequence: u64,
    /// The lane of the delivery.
    pub(super) lane: usize,
    /// The batches of the delivery.
    items: Items,
    /// Number of events of all batches.
    events: usize,
    /// Memory of the delivery in bytes. 0 until it was determined.
    pub(super) weight: usize,
    /// Failed attempts so far. `None` before the first failure.
    pub(crate) attempts: Option<Box<Attempts>>,
    pub(super) state: State,
}

/// State of a delivery. `encoded` is the data for the sink, with one message for each event.
pub(super) enum State {
    /// More batches can be joined until `until`. `encoded` has capacity for a full delivery and contains `bytes` bytes.
    Filling { encoded: Batch, bytes: usize, until: Instant },
    /// The batch is larger than a full delivery. It is divided only when its first events leave, so that fewer entries
    /// wait.
    Oversized { encoded: Batch },
    /// The delivery is complete and was never passed to the sink.
    Encoded { encoded: Batch },
    /// The sink had the delivery before and may have changed the data, so the delivery has to be encoded again. The
    /// next attempt may not start before `due`.
    Returned { due: Option<Instant> },
    /// The sink has the delivery. `begun` is the start of the delivery, or `None` if latencies are not measured.
    InFlight { encoded: Batch, begun: Option<Instant> },
}

/// The storages in which deliveries are assembled.
#[derive(Clone, Copy)]
pub(super) struct Store<'b> {
    pub(super) pool: &'b Pool,
    /// `true` if batches are divided among several lanes, so that a lane contains only shares of batches.
    pub(super) divided: bool,
}

/// A batch or a part of a batch, with its encoded form.
pub(crate) struct Part {
    pub(crate) item: InFlight,
    /// Data for the sink. `None` if the part has to be encoded again.
    pub(crate) outgoing: Option<Batch>,
    /// Memory of the part in bytes. 0 until it was determined.
    pub(super) weight: usize,
    /// Failed attempts of the delivery that contained the part before.
    attempts: Option<Box<Attempts>>,
}

impl Pending {
    pub(super) fn new((sequence, lane): (u64, usize), part: Part) -> Self {
        let Part { item: first, outgoing, weight, attempts } = part;
        let (events, items) = (first.batch.len(), Items::new(first));
        let state = match outgoing {
            Some(encoded) => State::Encoded { encoded },
            None => State::Returned { due: None },
        };
        Self { sequence, lane, items, events, weight, attempts, state }
    }

    /// Creates a delivery of one batch that is already in flight.
    #[inline]
    pub(super) fn in_flight(
        (sequence, lane): (u64, usize),
        item: InFlight,
        encoded: Batch,
        begun: Option<Instant>,
    ) -> Self {
        let (events, items) = (item.batch.len(), Items::new(item));
        let state = State::InFlight { encoded, begun };
        Self { sequence, lane, items, events, weight: 0, attempts: None, state }
    }

    /// Creates a delivery to which further batches may be joined until `until`. `bytes` is the size of its encoded
    /// form, which is copied to a storage with capacity for more. If batches are divided among lanes, the events are
    /// copied to a storage as well, because a share would otherwise retain the memory of its whole batch.
    pub(super) fn filling(
        position: (u64, usize),
        mut part: Part,
        bytes: usize,
        until: Instant,
        store: Store<'_>,
    ) -> Self {
        let mut encoded = Batch::from_pool(store.pool);
        part.outgoing.take().into_iter().for_each(|own| encoded.append(own));
        let mut pending = Self::new(position, part);
        if store.divided {
            pending.items.join_in(store.pool);
        }
        pending.state = State::Filling { encoded, bytes, until };
        pending
    }

    /// Creates an entry for a part that is larger than a delivery.
    pub(super) fn oversized(position: (u64, usize), part: Part) -> Self {
        let mut pending = Self::new(position, part);
        let encoded = pending.take_encoded().unwrap_or_default();
        pending.state = State::Oversized { encoded };
        pending
    }

    /// Returns the number of events of all batches.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Returns the batches, so that they can be encoded. Call [`Pending::recount`] after events were removed.
    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.items.each_mut()
    }

    /// Recomputes the number of events from the batches.
    pub(crate) fn recount(&mut self) {
        self.events = self.items_mut().map(|item| item.batch.len()).sum();
    }

    pub(crate) fn into_items(self) -> impl Iterator<Item = InFlight> {
        self.items.into_each()
    }

    /// Divides the delivery into its batches, each with its encoded form.
    pub(super) fn into_parts(mut self) -> impl Iterator<Item = Part> {
        let (encoded, weight, all) = (self.take_encoded(), self.weight, self.events.max(1));
        let attempts = self.attempts.take();
        let items: Vec<InFlight> = self.into_items().collect();
        let counts: Vec<usize> = items.iter().map(|item| item.batch.len()).collect();
        let mut encoded = encoded.map(|encoded| encoded.divide(&counts).into_iter());
        items.into_iter().map(move |item| {
            let weight = weight * item.batch.len() / all;
            let outgoing = encoded.as_mut().and_then(Iterator::next);
            Part { item, outgoing, weight, attempts: attempts.clone() }
        })
    }

    /// Returns the sequence number and the lane of the delivery.
    pub(crate) fn position(&self) -> (u64, usize) {
        (self.sequence, self.lane)
    }

    /// Creates the delivery for the events that remain of a delivery at `position` with the memory `weight`. `left`
    /// contains the remaining events, by batch. Returns `None` if `left` is empty.
    pub(crate) fn of(position: (u64, usize), weight: usize, left: Vec<InFlight>) -> Option<Self> {
        let mut left = left.into_iter();
        let mut remainder = Self::new(position, Part::new(left.next()?, None));
        left.for_each(|item| remainder.items.add(item));
        remainder.weight = weight;
        remainder.recount();
        Some(remainder)
    }

    /// Returns the number of events that are dead letters.
    pub(crate) fn letters(&self) -> usize {
        self.items.letters()
    }

    /// Returns the number of events whose source is not notified if they fail.
    pub(super) fn lost(&self) -> usize {
        self.items.lost()
    }

    /// Acknowledges all events to their sources.
    pub(crate) fn settle(mut self) {
        self.set_settled();
    }

    /// Marks all events as acknowledged. Their sources are notified once the delivery is dropped.
    pub(super) fn set_settled(&mut self) {
        self.items.set_settled();
    }

    /// Takes the data for the sink out of the delivery, which becomes [`State::Returned`].
    pub(super) fn take_encoded(&mut self) -> Option<Batch> {
        match mem::replace(&mut self.state, State::Returned { due: None }) {
            State::Filling { encoded, .. }
            | State::Oversized { encoded }
            | State::Encoded { encoded }
            | State::InFlight { encoded, .. } => Some(encoded),
            State::Returned { .. } => None,
        }
    }

    /// Marks the delivery as in flight. `begun` is its start, if its latency is measured.
    pub(super) fn begin(&mut self, begun: Option<Instant>) {
        let encoded = self.take_encoded().unwrap_or_default();
        self.state = State::InFlight { encoded, begun };
    }

    /// Returns the data for the sink while the delivery is in flight.
    pub(super) fn in_flight_mut(&mut self) -> Option<&mut Batch> {
        match &mut self.state {
            State::InFlight { encoded, .. } => Some(encoded),
            _ => None,
        }
    }

    /// Marks the delivery as no longer in flight. Returns its start, if that was recorded.
    pub(super) fn end(&mut self) -> Option<Instant> {
        let State::InFlight { begun, .. } = self.state else { return None };
        self.state = State::Returned { due: None };
        begun
    }

    /// Lets a delivery that has failed be retried immediately.
    pub(super) fn try_now(&mut self) {
        if let State::Returned { due } = &mut self.state {
            *due = None;
        }
    }

    /// Returns the time from which on the delivery may leave, or `None` if it may leave now. If `at_once` is set, the
    /// delivery does not wait for more batches.
    pub(super) fn due(&self, at_once: bool) -> Option<Instant> {
        match self.state {
            State::Filling { until, .. } => Some(until).filter(|_| !at_once),
            State::Returned { due } => due,
            _ => None,
        }
    }

    /// Returns the size of the data for the sink in bytes if batches can still be joined, and `None` otherwise.
    pub(super) fn filled(&self) -> Option<usize> {
        match self.state {
            State::Filling { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the storage of the delivery's events has capacity for `part`.
    pub(super) fn fits(&self, part: &Part) -> bool {
        self.items.fits(&part.item.batch)
    }

    /// Appends a batch whose encoded form has `bytes` bytes.
    pub(super) fn join(&mut self, part: Part, bytes: usize) {
        let Part { item, outgoing, weight, .. } = part;
        if let State::Filling { encoded, bytes: all, .. } = &mut self.state {
            outgoing.into_iter().for_each(|own| encoded.append(own));
            *all += bytes;
        }
        self.events += item.batch.len();
        self.weight += weight;
        self.items.add(item);
    }

    /// Copies the events to memory of their own if their batches retain much more than the events need. Returns the
    /// bytes that the delivery retains now, as [`Pending::retained_bytes`] counts them.
    pub(super) fn compact(&mut self) -> usize {
        // The copy visits every event, so it is made only if the delivery retains more than twice its own size.
        if self.retained_bytes() > 2 * self.weight && !self.shares_with_sink() {
            self.items.compact();
            // While a delivery is being filled, its storage keeps the spare capacity.
            if let State::Encoded { encoded } | State::Oversized { encoded } = &mut self.state {
                encoded.compact();
            }
        }
        let retained = self.retained_bytes();
        self.weight = self.weight.max(retained);
        retained
    }

    /// Returns the bytes of memory that the delivery retains, as [`HostBatch::retained_bytes`] counts them. If several
    /// batches share a buffer, only the delivery's part of the buffer counts. While the delivery is in flight, the data
    /// for the sink does not count, because the sink has it, unless it shares the buffers of the events.
    pub(super) fn retained_bytes(&self) -> usize {
        let encoded = match &self.state {
            State::Filling { encoded, .. } => encoded.weight(),
            State::Oversized { encoded } | State::Encoded { encoded } => encoded.retained_bytes(),
            State::InFlight { encoded, .. } if self.shares_with_sink() => encoded.retained_bytes(),
            State::Returned { .. } | State::InFlight { .. } => 0,
        };
        self.items.retained_bytes() + encoded
    }

    /// Returns whether the sink has the data, and the data shares the buffers of the events.
    fn shares_with_sink(&self) -> bool {
        let State::InFlight { encoded, .. } = &self.state else { return false };
        self.items.have_buffers_of(encoded)
    }

    /// Determines the memory of the delivery, if it is not known.
    pub(super) fn weigh(&mut self) {
        if self.weight == 0 {
            let encoded = self.in_flight_mut().map_or(0, |encoded| encoded.retained_bytes());
            self.weight = self.items.retained_bytes() + encoded;
        }
    }

    /// Completes the delivery, so that no more batches are joined to it.
    pub(super) fn close(&mut self) {
        let State::Filling { encoded, .. } = &mut self.state else { return };
        let encoded = mem::take(encoded);
        if let Some(items) = self.items.joined_weight() {
            self.weight = items + encoded.weight();
        }
        self.state = State::Encoded { encoded };
    }
}

impl Part {
    pub(crate) fn new(item: InFlight, outgoing: Option<Batch>) -> Self {
        Self { item, outgoing, weight: 0, attempts: None }
    }

    pub(super) fn events(&self) -> usize {
        self.item.batch.len()
    }

    /// Determines the memory of the part. Messages that share the buffers of their events count as if they were copied,
    /// because joining copies them.
    pub(super) fn weigh(&mut self) {
        let batch = &self.item.batch;
        let outgoing = self.outgoing.as_ref().map_or(0, |outgoing| {
            if outgoing.has_buffers_of(batch) {
                outgoing.weight_without_buffers() + outgoing.size_of_all()
            } else {
                outgoing.weight()
            }
        });
        self.weight = batch.weight() + outgoing;
    }

    /// Returns the number of leading events that fit into a delivery of `events` events and `bytes` bytes, and the size
    /// of these events in bytes. The first `least` events count even if they exceed `bytes`.
    pub(super) fn fitting(&self, least: usize, events: usize, bytes: usize) -> (usize, usize) {
        let batch = self.outgoing.as_ref().unwrap_or(&self.item.batch);
        let mut fitting = (0, 0);
        for event in batch.events().iter().take(events) {
            let size = fitting.1 + batch.size_of(event);
            if size > bytes && fitting.0 >= least {
                break;
            }
            fitting = (fitting.0 + 1, size);
        }
        fitting
    }

    /// Returns the position of the first boundary between two deliveries at or after the middle of the events. Returns
    /// 0 if there is no such boundary.
    pub(super) fn middle(&self, max_events: usize, max_bytes: usize) -> usize {
        let batch = self.outgoing.as_ref().unwrap_or(&self.item.batch);
        let (mut count, mut bytes) = (0, 0);
        for (position, event) in batch.events().iter().enumerate() {
            let size = batch.size_of(event);
            if count == max_events || (count > 0 && bytes + size > max_bytes) {
                if 2 * position >= batch.len() {
                    return position;
                }
                (count, bytes) = (0, 0);
            }
            (count, bytes) = (count + 1, bytes + size);
        }
        0
    }

    /// Divides the part after `events` events. Returns both parts; the second is `None` if it would be empty. The pull
    /// stays open until both parts are completed.
    pub(super) fn cut(self, events: usize) -> (Self, Option<Self>) {
        let counts = [events, self.events().saturating_sub(events)];
        if counts[1] == 0 {
            return (self, None);
        }
        let remainder_weight = self.weight * counts[1] / self.events();
        let both = |batch: Batch| {
            let mut both = batch.divide(&counts).into_iter();
            (both.next().unwrap_or_default(), both.next().unwrap_or_default())
        };
        #[cfg(test)]
        CUT_EVENTS.with(|cut| cut.set(cut.get() + self.events()));
        let Self { item: InFlight { batch, token, is_letter }, outgoing, weight, attempts } = self;
        let (batch, remainder) = both(batch);
        let (outgoing, remainder_outgoing) = outgoing.map(both).unzip();
        let remainder = Self {
            item: InFlight { batch: remainder, token: token.clone(), is_letter },
            outgoing: remainder_outgoing,
            weight: remainder_weight,
            attempts: attempts.clone(),
        };
        let item = InFlight { batch, token, is_letter };
        (Self { item, outgoing, weight: weight - remainder_weight, attempts }, Some(remainder))
    }

    /// Returns a part that contains the events at `positions` and a clone of the token.
    pub(super) fn pick(&self, positions: &[usize]) -> Self {
        let InFlight { batch, token, is_letter } = &self.item;
        let (batch, token) = (batch.pick(positions), token.clone());
        let item = InFlight { batch, token, is_letter: *is_letter };
        let weight = self.weight * positions.len() / self.events().max(1);
        let outgoing = self.outgoing.as_ref().map(|outgoing| outgoing.pick(positions));
        Self { item, outgoing, weight, attempts: self.attempts.clone() }
    }
}

#[cfg(test)]
thread_local! {
    /// Total number of events in the parts that were divided, as a measure for the copies that [`Part::cut`] makes.
    pub(super) static CUT_EVENTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
