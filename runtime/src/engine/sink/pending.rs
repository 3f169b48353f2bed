//! A delivery that a sink is to make: a batch that came, or several that are delivered as one.

use std::{mem, time::Instant};

use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use crate::engine::{account::token::InFlight, retry::backoff::Attempts, sink::items::Items};

/// A delivery that waits or is in flight.
pub(crate) struct Pending {
    /// Its place in the order in which batches came.
    pub(super) place: u64,
    /// What it waits in.
    pub(super) lane: usize,
    items: Items,
    /// Of all of them.
    events: usize,
    /// Memory of the delivery, in bytes. 0 if nobody needs to know.
    pub(super) weight: usize,
    /// Deliveries of it that have failed, in a row.
    pub(crate) attempts: Option<Box<Attempts>>,
    state: State,
}

/// Progress of a delivery. `encoded` is the data for the sink, event by event.
enum State {
    /// Batches can be joined until `until`. `encoded` has capacity for a delivery, and `bytes` bytes so far.
    Filling { encoded: Batch, bytes: usize, until: Instant },
    /// The batch is larger than a delivery. It is cut when its first events leave, so that fewer entries wait.
    Oversized { encoded: Batch },
    /// The delivery was never begun.
    Encoded { encoded: Batch },
    /// The sink had the delivery and may have changed its data, which is encoded again, not before `due`.
    Returned { due: Option<Instant> },
    /// The sink has the delivery. `begun` is `None` if nobody asks for latencies.
    InFlight { encoded: Batch, begun: Option<Instant> },
}

/// Where deliveries are put together.
#[derive(Clone, Copy)]
pub(super) struct Store<'b> {
    pub(super) pool: &'b Pool,
    /// Whether lanes have shares of batches.
    pub(super) divided: bool,
}

/// A batch, or a part of one, with what the sink gets of it.
pub(crate) struct Part {
    pub(crate) item: InFlight,
    pub(crate) outgoing: Option<Batch>,
    pub(super) weight: usize,
    /// Deliveries of it that have failed, in a row.
    attempts: Option<Box<Attempts>>,
}

impl Pending {
    pub(super) fn new((place, lane): (u64, usize), part: Part) -> Self {
        let Part { item: first, outgoing, weight, attempts } = part;
        let (events, items) = (first.batch.len(), Items::new(first));
        let state = match outgoing {
            Some(encoded) => State::Encoded { encoded },
            None => State::Returned { due: None },
        };
        Self { place, lane, items, events, weight, attempts, state }
    }

    /// Makes a delivery that others may be joined to until `until`. The sink gets `bytes` bytes so far, in a batch of
    /// the store, which has capacity for more. If lanes have shares of batches, the events get such a batch as well: a
    /// share by itself would keep all of its batch.
    pub(super) fn filling(
        place: (u64, usize),
        mut part: Part,
        bytes: usize,
        until: Instant,
        store: Store<'_>,
    ) -> Self {
        let mut encoded = Batch::from_pool(store.pool);
        part.outgoing.take().into_iter().for_each(|own| encoded.append(own));
        let mut pending = Self::new(place, part);
        if store.divided {
            pending.items.lie_together(store.pool);
        }
        pending.state = State::Filling { encoded, bytes, until };
        pending
    }

    /// Makes an entry of more events than a delivery has.
    pub(super) fn oversized(place: (u64, usize), part: Part) -> Self {
        let mut pending = Self::new(place, part);
        let encoded = pending.take_encoded().unwrap_or_default();
        pending.state = State::Oversized { encoded };
        pending
    }

    /// How many events there are to account for.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Its batches, to be encoded. Events that cannot be encoded have left them then.
    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut InFlight> {
        self.items.each_mut()
    }

    /// Its batches may have fewer events than before.
    pub(crate) fn recount(&mut self) {
        self.events = self.items_mut().map(|item| item.batch.len()).sum();
    }

    pub(crate) fn into_items(self) -> impl Iterator<Item = InFlight> {
        self.items.into_each()
    }

    /// Its batches, each with what the sink gets of it.
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

    /// Its place in the order in which batches came, and what it waits in.
    pub(crate) fn place(&self) -> (u64, usize) {
        (self.place, self.lane)
    }

    /// The delivery that had this place, with what is left of its batches, which keep as much memory; none where
    /// nothing is.
    pub(crate) fn of(place: (u64, usize), weight: usize, left: Vec<InFlight>) -> Option<Self> {
        let mut left = left.into_iter();
        let mut rest = Self::new(place, Part::new(left.next()?, None));
        left.for_each(|item| rest.items.add(item));
        rest.weight = weight;
        rest.recount();
        Some(rest)
    }

    /// How many of its events are dead letters.
    pub(crate) fn letters(&self) -> usize {
        self.items.letters()
    }

    /// Returns the number of events whose source is not told if they fail.
    pub(super) fn lost(&self) -> usize {
        self.items.lost()
    }

    /// All of it is done with.
    pub(crate) fn settle(self) {
        self.items.settle();
    }

    /// Returns whether the data for the sink has to be encoded before the delivery begins.
    pub(super) fn is_unencoded(&self) -> bool {
        matches!(self.state, State::Returned { .. })
    }

    /// Sets the data for the sink.
    pub(super) fn set_encoded(&mut self, encoded: Batch) {
        self.state = State::Encoded { encoded };
    }

    pub(super) fn take_encoded(&mut self) -> Option<Batch> {
        match mem::replace(&mut self.state, State::Returned { due: None }) {
            State::Filling { encoded, .. }
            | State::Oversized { encoded }
            | State::Encoded { encoded }
            | State::InFlight { encoded, .. } => Some(encoded),
            State::Returned { .. } => None,
        }
    }

    /// The sink gets the delivery, at `begun` if that is to be known.
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

    /// The sink has answered the delivery or has given it up. Returns when it began, if that is known.
    pub(super) fn end(&mut self) -> Option<Instant> {
        let State::InFlight { begun, .. } = self.state else { return None };
        self.state = State::Returned { due: None };
        begun
    }

    /// The delivery has failed, and is not made again before `due`.
    pub(super) fn retry_at(&mut self, due: Instant) {
        self.state = State::Returned { due: Some(due) };
    }

    /// A delivery that has failed may be made again at once.
    pub(super) fn try_now(&mut self) {
        if let State::Returned { due } = &mut self.state {
            *due = None;
        }
    }

    /// Returns when the delivery may leave, or `None` if it may do so at any time. With `at_once` it waits for no
    /// other batches.
    pub(super) fn due(&self, at_once: bool) -> Option<Instant> {
        match self.state {
            State::Filling { until, .. } => Some(until).filter(|_| !at_once),
            State::Returned { due } => due,
            _ => None,
        }
    }

    /// Returns the size of the data so far, in bytes, if other batches can be joined to it.
    pub(super) fn filled(&self) -> Option<usize> {
        match self.state {
            State::Filling { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn is_oversized(&self) -> bool {
        matches!(self.state, State::Oversized { .. })
    }

    /// Whether a batch may be joined to it.
    pub(super) fn has_room(&self, part: &Part) -> bool {
        self.items.has_room(&part.item.batch)
    }

    /// Puts a batch after the others, of so many bytes.
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

    /// Gives up what its batches keep besides their events, and weighs what is left. How much memory it takes
    /// in truth, in bytes: a share of a batch keeps all of that which nobody else keeps.
    pub(super) fn let_go(&mut self) -> usize {
        // What is too little to be a share of much is not looked at event by event.
        if self.held() > 2 * self.weight {
            self.items.let_go();
            // What others are joined to has room for them.
            if let State::Encoded { encoded } | State::Oversized { encoded } = &mut self.state {
                encoded.let_go();
            }
        }
        let held = self.held();
        self.weight = self.weight.max(held);
        held
    }

    /// How much memory it keeps, in bytes, other than what others keep as well. The sink has the data of a delivery in
    /// flight, which does not count.
    pub(super) fn held(&self) -> usize {
        let encoded = match &self.state {
            State::Filling { encoded, .. } => encoded.weight(),
            State::Oversized { encoded } | State::Encoded { encoded } => encoded.held(),
            State::Returned { .. } | State::InFlight { .. } => 0,
        };
        self.items.held() + encoded
    }

    /// Finds out how much memory it takes, if that is not known.
    pub(super) fn weigh(&mut self) {
        if self.weight == 0 {
            let encoded = self.in_flight_mut().map_or(0, |encoded| encoded.held());
            self.weight = self.items.held() + encoded;
        }
    }

    /// It waits for no others.
    pub(super) fn close(&mut self) {
        let State::Filling { encoded, .. } = &mut self.state else { return };
        let encoded = mem::take(encoded);
        if let Some(items) = self.items.weight_together() {
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

    /// Finds out how much memory it takes.
    pub(super) fn weigh(&mut self) {
        let outgoing = self.outgoing.as_ref().map_or(0, HostBatch::weight);
        self.weight = self.item.batch.weight() + outgoing;
    }

    /// How many of its first events are so few and so few bytes, but at least so many; and their bytes.
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

    /// Returns the end of the first delivery that reaches the middle of the events, or 0 if the last delivery does.
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

    /// So many of its first events, and the rest if there is one. Its pull ends when both are done with.
    pub(super) fn cut(self, events: usize) -> (Self, Option<Self>) {
        let counts = [events, self.events().saturating_sub(events)];
        if counts[1] == 0 {
            return (self, None);
        }
        let rest_weight = self.weight * counts[1] / self.events();
        let both = |batch: Batch| {
            let mut both = batch.divide(&counts).into_iter();
            (both.next().unwrap_or_default(), both.next().unwrap_or_default())
        };
        #[cfg(test)]
        CUT_EVENTS.with(|cut| cut.set(cut.get() + self.events()));
        let Self { item: InFlight { batch, token, is_letter }, outgoing, weight, attempts } = self;
        let (batch, rest) = both(batch);
        let (outgoing, rest_outgoing) = outgoing.map(both).unzip();
        let rest = Self {
            item: InFlight { batch: rest, token: token.clone(), is_letter },
            outgoing: rest_outgoing,
            weight: rest_weight,
            attempts: attempts.clone(),
        };
        let item = InFlight { batch, token, is_letter };
        (Self { item, outgoing, weight: weight - rest_weight, attempts }, Some(rest))
    }

    /// Those of its events that are at these positions.
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
    /// Number of events that were in parts when these were cut in two.
    pub(super) static CUT_EVENTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
