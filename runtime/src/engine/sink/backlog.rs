//! What a sink has taken from its queue and not delivered: what waits in lanes, and may be delivered next, and what is in
//! flight in slots.

use std::time::Instant;

use tremor_abi::batch::Pool;

use crate::dynamic::DynSink;
use crate::engine::{
    queue::Left,
    sink::{
        lane::{Batching, Lane, Leaving},
        pending::{Part, Pending, Store},
        slots::Slots,
        streams::{Load, Streams},
    },
    tuning::{POOLED, SINK_WAITING_BYTES},
};

/// Memory of a waiting delivery for each byte that the sink gets, in bytes: an estimate for decoded events that are
/// kept beside what was encoded of them.
const WEIGHT_TO_BYTES: usize = 4;

/// The deliveries of a sink that wait or are in flight.
pub(crate) struct Backlog {
    batching: Option<Batching>,
    /// Where deliveries are put together that are larger than what comes.
    pool: Pool,
    /// One, unless streams go side by side.
    lanes: Vec<Lane>,
    /// In a lane one delivery is made after the other.
    in_order: bool,
    /// The deliveries in flight.
    pub(super) slots: Slots,
    streams: Streams,
    places: u64,
    /// Nothing follows for which to wait.
    is_complete: bool,
    /// `true` while the flow may take no more memory.
    is_short: bool,
    /// Of each lane, as it was when a delivery was last looked for.
    loads: Vec<Load>,
    kept: Kept,
}

/// How much memory there is at most, in bytes, deliveries under way included.
#[derive(Default)]
struct Kept {
    /// When that was last found out,
    counted: usize,
    /// and what has come since.
    came: usize,
}

impl Backlog {
    pub(crate) fn new(batching: Option<Batching>) -> Self {
        Self {
            batching,
            pool: places(batching, 1, 1),
            lanes: vec![Lane::default()],
            in_order: false,
            slots: Slots::new(1),
            streams: Streams::default(),
            places: 0,
            is_complete: false,
            is_short: false,
            loads: vec![Load::default()],
            kept: Kept::default(),
        }
    }

    /// Whether batches are put together.
    pub(crate) fn is_batching(&self) -> bool {
        self.batching.is_some()
    }

    /// Prepares the deliveries for a sink that may have `slots` of them in flight, in the order of their streams or in
    /// any. All of them may be tried at once.
    pub(crate) fn begin(&mut self, slots: usize, in_order: bool, batching: Option<Batching>) {
        let lanes = if in_order { slots } else { 1 };
        let is_other = lanes != self.lanes.len() || batching != self.batching;
        if is_other || slots != self.slots.count() {
            self.pool = places(batching, slots, lanes);
        }
        (self.in_order, self.batching) = (in_order, batching);
        self.slots = Slots::new(slots);
        if is_other {
            let old = std::mem::take(&mut self.lanes);
            self.lanes.resize_with(lanes, Lane::default);
            (self.loads, self.streams) = (vec![Load::default(); lanes], Streams::default());
            let mut waiting: Vec<Pending> = old.into_iter().flat_map(Lane::into_waiting).collect();
            waiting.sort_by_key(|pending| pending.place);
            for part in waiting.into_iter().flat_map(Pending::into_parts) {
                self.assign(part);
            }
        }
        self.lanes.iter_mut().for_each(Lane::try_now);
    }

    /// Returns whether a batch is a delivery as it is, and the next one, because the sink has one slot and got everything
    /// that came before.
    pub(crate) fn is_direct(&self) -> bool {
        self.slots.count() == 1 && !self.is_batching()
    }

    /// Returns the delivery of a batch that does not wait: see [`Backlog::is_direct`].
    pub(crate) fn direct(&mut self, part: Part) -> Pending {
        Pending::new((self.next_place(), 0), part)
    }

    /// Another batch came.
    pub(crate) fn push(&mut self, mut part: Part) {
        part.weigh();
        if self.is_batching() {
            self.kept.came += part.weight;
        }
        self.assign(part);
    }

    /// Whether shares of batches may keep more than they should: [`Backlog::let_go`] is due.
    pub(crate) fn keeps_much(&self) -> bool {
        let Kept { counted, came } = self.kept;
        // Counting takes time, and much has come since it was last done.
        came > SINK_WAITING_BYTES / 4 && counted + came > self.most_kept()
    }

    /// Where one lane is held up, little of many batches waits, and keeps all of them. Those that keep more than
    /// twice what they are get memory of their own, deliveries under way included.
    pub(crate) fn let_go(&mut self) {
        let waiting: usize = self.lanes.iter_mut().map(Lane::let_go).sum();
        let in_flight: usize = self.slots.pending_mut().map(Pending::let_go).sum();
        self.kept = Kept { counted: waiting + in_flight, came: 0 };
    }

    /// Divides a batch among the lanes of its streams.
    fn assign(&mut self, part: Part) {
        let place = self.next_place();
        if self.lanes.len() == 1 {
            return self.wait((place, 0), part);
        }
        self.look();
        let assigned = self.streams.assign(&part.item.batch, place, &mut self.loads);
        if let [(lane, _)] = assigned[..] {
            return self.wait((place, lane), part);
        }
        for (lane, positions) in assigned {
            self.wait((place, lane), part.pick(&positions));
        }
        // Each lane has a share of it.
        part.item.token.settle();
    }

    /// What comes back from a delivery is encoded with the next one, and joined to nothing.
    fn wait(&mut self, place: (u64, usize), part: Part) {
        let lane = place.1;
        match self.batching.filter(|_| part.outgoing.is_some()) {
            Some(batching) => {
                let store = Store { pool: &self.pool, divided: self.lanes.len() > 1 };
                self.lanes[lane].join(place, part, batching, store);
            }
            None => self.lanes[lane].push(Pending::new(place, part)),
        }
    }

    /// A delivery was not made: it is again where it was.
    pub(crate) fn put_back(&mut self, mut pending: Pending) {
        pending.weigh();
        pending.end();
        self.lanes[pending.lane].insert(pending);
    }

    /// Has the sink give up the deliveries in flight, which wait for the next connection.
    pub(crate) fn give_up(&mut self, sink: &mut dyn DynSink) {
        let slots = std::mem::replace(&mut self.slots, Slots::new(1));
        slots.give_up(sink).for_each(|pending| self.put_back(pending));
    }

    /// Returns the first delivery that may be made now, if a slot is free.
    pub(crate) fn take_next(&mut self) -> Option<Pending> {
        if !self.slots.has_free() || !self.has_waiting() {
            return None;
        }
        self.look();
        let (leaving, now) = (self.leaving(), Instant::now());
        let ready = self.free_lanes().filter(|lane| self.lanes[*lane].is_ready(leaving, now));
        let lane = ready.min_by_key(|lane| self.lanes[*lane].first())?;
        let store = Store { pool: &self.pool, divided: self.lanes.len() > 1 };
        self.lanes[lane].take(leaving, now, self.batching, store)
    }

    /// When the next delivery may be made, after none could be when one was last looked for. `None` if no slot is free:
    /// what is due then is begun with the next answer.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !self.slots.has_free() {
            return None;
        }
        let leaving = self.leaving();
        self.free_lanes().filter_map(|lane| self.lanes[lane].next_due(leaving)).min()
    }

    /// Whether more may be taken from the queue.
    pub(crate) fn has_room(&self) -> bool {
        match self.batching {
            // So much that streams find their slots.
            None => {
                let waiting: usize = self.lanes.iter().map(Lane::len).sum();
                self.slots.has_free() && waiting < self.slots.count()
            }
            Some(batching) => {
                // While a batch of each slot is delivered, another one is put together.
                let events = batching.max_events.get().saturating_mul(2 * self.slots.count());
                let is_within =
                    self.waiting_weight() < SINK_WAITING_BYTES && self.weight() < self.most_kept();
                self.waiting_events() < events
                    && (is_within || self.fills_large_deliveries(batching))
            }
        }
    }

    /// Returns whether only deliveries wait that others can still be joined to, and that may be so large that they
    /// would exceed the bound of all that waits before they are full. The flow's share of memory bounds these.
    fn fills_large_deliveries(&self, batching: Batching) -> bool {
        batching.max_bytes.get() > SINK_WAITING_BYTES / WEIGHT_TO_BYTES
            && self.lanes.iter().all(Lane::is_filling)
    }

    /// Returns the memory of all deliveries, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.waiting_weight() + self.slots.pending().map(|pending| pending.weight).sum::<usize>()
    }

    fn waiting_weight(&self) -> usize {
        self.lanes.iter().map(Lane::weight).sum()
    }

    /// How much memory there should be at most, in bytes, deliveries under way included. Of these the source's
    /// events are kept, and what the sink gets of them.
    fn most_kept(&self) -> usize {
        let delivery = self.batching.map_or(0, |batching| batching.max_bytes.get());
        SINK_WAITING_BYTES.saturating_add(delivery.saturating_mul(2 * self.slots.count()))
    }

    /// Nothing comes any more. Whether that was not known.
    pub(crate) fn complete(&mut self) -> bool {
        !std::mem::replace(&mut self.is_complete, true)
    }

    /// Returns `true` if nothing follows what has been received.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns `true` if a delivery waits for the answer to an earlier one of its stream.
    pub(crate) fn waits_for_order(&self) -> bool {
        let mut in_flight = self.slots.pending();
        self.in_order && in_flight.any(|pending| self.lanes[pending.lane].len() > 0)
    }

    /// Sets whether the flow may take no more memory. While that is so, no delivery waits for others.
    pub(crate) fn set_is_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Returns whether no delivery waits or is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.has_waiting()
    }

    /// Returns whether a delivery waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| lane.len() > 0)
    }

    /// Returns the number of events that wait or are in flight.
    pub(crate) fn events(&self) -> usize {
        self.waiting_events() + self.slots.pending().map(Pending::events).sum::<usize>()
    }

    fn waiting_events(&self) -> usize {
        self.lanes.iter().map(Lane::events).sum()
    }

    /// Returns the numbers of events that are left at the end.
    pub(crate) fn left(&self) -> Left {
        Left { events: self.events(), lost: self.lanes.iter().map(Lane::lost).sum() }
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    fn leaving(&self) -> Leaving {
        let at_once = self.is_complete || self.is_short || !self.has_room();
        Leaving { in_order: self.in_order, at_once }
    }

    /// Those from which a delivery may leave.
    fn free_lanes(&self) -> impl Iterator<Item = usize> {
        let loads = self.loads.iter().enumerate();
        loads.filter(|(_, load)| !(self.in_order && load.is_busy)).map(|(lane, _)| lane)
    }

    fn look(&mut self) {
        for (load, lane) in self.loads.iter_mut().zip(&self.lanes) {
            *load = Load { first: lane.first(), events: lane.events(), is_busy: false };
        }
        for pending in self.slots.pending() {
            let load = &mut self.loads[pending.lane];
            load.add(pending.place, pending.events());
            load.is_busy = true;
        }
    }
}

/// What deliveries are put together in is as large as they are, and comes back with their answers. As much is kept as so
/// many of them have under way: what the sink gets, and, where lanes have shares of batches, the events as well.
fn places(batching: Option<Batching>, slots: usize, lanes: usize) -> Pool {
    let Some(batching) = batching else { return Pool::new(0) };
    let each = if lanes > 1 { 2 } else { 1 };
    let bytes = batching.max_bytes.get().saturating_mul(each * slots);
    Pool::with_bytes(POOLED, bytes.clamp(1 << 20, SINK_WAITING_BYTES))
}

#[cfg(test)]
mod tests;
