//! A delivery that a sink is to make: a batch that came, or several that are delivered as one.

use std::time::Instant;

use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use crate::engine::{account::token::InFlight, life::backoff::Attempts, sink::items::Items};

/// A delivery that is to be made.
pub(crate) struct Pending {
    /// Its place in the order in which batches came.
    pub(super) place: u64,
    /// What it waits in.
    pub(super) lane: usize,
    items: Items,
    /// Of all of them.
    events: usize,
    /// What the sink gets of them, event by event; none where it is yet to be encoded.
    outgoing: Option<Batch>,
    /// How much memory it takes, in bytes, where somebody wants to know.
    pub(super) weight: usize,
    /// While others are joined to it: how large what the sink gets is so far, in bytes.
    pub(super) open: Option<usize>,
    /// It is larger than a delivery, and is cut when the first of it leaves: what waits is fewer entries then.
    pub(super) is_uncut: bool,
    /// Deliveries of it that have failed, in a row.
    pub(crate) attempts: Option<Box<Attempts>>,
    /// Before then it is not delivered.
    pub(crate) due: Option<Instant>,
    /// When its delivery began, where that is to be known.
    pub(crate) begun: Option<Instant>,
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
    pub(super) fn new(place: u64, lane: usize, part: Part) -> Self {
        let Part { item: first, outgoing, weight, attempts } = part;
        let (events, items) = (first.batch.len(), Items::new(first));
        let (open, is_uncut, due, begun) = (None, false, None, None);
        Self { place, lane, items, events, outgoing, weight, open, is_uncut, attempts, due, begun }
    }

    /// How many events there are to account for.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// What the sink gets of it; none where that is yet to be encoded.
    pub(crate) fn take_outgoing(&mut self) -> Option<Batch> {
        self.outgoing.take()
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
        let (outgoing, weight, all) = (self.outgoing.take(), self.weight, self.events.max(1));
        let attempts = self.attempts.take();
        let items: Vec<InFlight> = self.into_items().collect();
        let counts: Vec<usize> = items.iter().map(|item| item.batch.len()).collect();
        let mut outgoing = outgoing.map(|outgoing| outgoing.divide(&counts).into_iter());
        items.into_iter().map(move |item| {
            let weight = weight * item.batch.len() / all;
            let outgoing = outgoing.as_mut().and_then(Iterator::next);
            Part { item, outgoing, weight, attempts: attempts.clone() }
        })
    }

    /// Its place in the order in which batches came, and what it waits in.
    pub(crate) fn place(&self) -> (u64, usize) {
        (self.place, self.lane)
    }

    /// The delivery that had this place, with what is left of its batches, which keep as much memory; none where
    /// nothing is.
    pub(crate) fn of(
        (place, lane): (u64, usize),
        weight: usize,
        left: Vec<InFlight>,
    ) -> Option<Self> {
        let mut left = left.into_iter();
        let mut rest = Self::new(place, lane, Part::new(left.next()?, None));
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

    /// Others may be joined to it from now on until then. What the sink gets has so many bytes so far, and
    /// gets a place with room for more. Where batches are `divided` among lanes, they get such a place as well: what a
    /// lane has of them would keep all of them.
    pub(super) fn open(&mut self, bytes: usize, until: Instant, pool: &Pool, divided: bool) {
        if divided {
            self.items.lie_together(pool);
        }
        let own = self.outgoing.replace(Batch::from_pool(pool));
        self.copy(own);
        (self.open, self.due) = (Some(bytes), Some(until));
    }

    /// Whether a batch may be joined to it.
    pub(super) fn has_room(&self, part: &Part) -> bool {
        self.items.has_room(&part.item.batch)
    }

    /// Puts a batch after the others, of so many bytes.
    pub(super) fn join(&mut self, part: Part, bytes: usize) {
        let Part { item, outgoing, weight, .. } = part;
        self.copy(outgoing);
        self.events += item.batch.len();
        self.weight += weight;
        self.open = self.open.map(|before| before + bytes);
        self.items.add(item);
    }

    fn copy(&mut self, from: Option<Batch>) {
        if let Some((all, from)) = self.outgoing.as_mut().zip(from) {
            all.append(from);
        }
    }

    /// Gives up what its batches keep besides their events, and weighs what is left. How much memory it takes
    /// in truth, in bytes: a share of a batch keeps all of that which nobody else keeps.
    pub(super) fn let_go(&mut self) -> usize {
        // What is too little to be a share of much is not looked at event by event.
        if self.held() > 2 * self.weight {
            self.items.let_go();
            // What others are joined to has room for them.
            let outgoing = self.outgoing.as_mut().filter(|_| self.open.is_none());
            outgoing.into_iter().for_each(HostBatch::let_go);
        }
        let held = self.held();
        self.weight = self.weight.max(held);
        held
    }

    /// How much memory it keeps, in bytes, other than what others keep as well.
    pub(super) fn held(&self) -> usize {
        let held = if self.open.is_some() { Batch::weight } else { Batch::held };
        self.items.held() + self.outgoing.as_ref().map_or(0, held)
    }

    /// It waits for no others.
    pub(super) fn close(&mut self) {
        if self.open.take().is_none() {
            return;
        }
        self.due = None;
        if let Some(items) = self.items.weight_together() {
            self.weight = items + self.outgoing.as_ref().map_or(0, HostBatch::weight);
        }
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
