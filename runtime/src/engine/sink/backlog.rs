//! The backlog of a sink: batches that have left its queue and are not delivered yet.
//!
//! Batches that wait for delivery are kept in lanes, and deliveries in flight in slots. The backlog divides events
//! among lanes by their stream. If the sink has limits for deliveries, the backlog joins small batches and splits large
//! ones. It decides which delivery may start next, and when.

use std::{sync::Arc, time::Instant};

use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::Batch;

use crate::clock::Clock;
use crate::dynamic::DynSink;
use crate::engine::{
    handle::ConnectorHandle,
    queue::stalled::Stalled,
    sink::{
        aside::Aside,
        lane::{Batching, Lane, Leaving},
        pending::{Part, Pending, Store},
        slots::Slots,
        streams::{Load, Streams},
    },
    tracking::{stats::Left, token::InFlight},
    tuning::{POOLED, SINK_WAITING_BYTES},
};

/// Estimated memory of a waiting delivery per byte that the sink gets. Decoded events are retained beside their encoded
/// form.
const WEIGHT_TO_BYTES: usize = 4;

/// Capacity of a storage per byte of the largest delivery that is assembled in it. The list of events and their metadata
/// need as much memory as short messages, and a buffer that grows has up to twice the capacity that it needs.
const STORAGE_TO_BYTES: usize = 4;

/// The waiting and in-flight deliveries of a sink.
pub(crate) struct Backlog {
    /// Limits of a delivery; `None` if batches are delivered as they arrive.
    batching: Option<Batching>,
    clock: Clock,
    /// Batch storages in which several batches are joined to one delivery.
    pool: Pool,
    /// Waiting deliveries. There is one lane unless several streams are delivered in parallel and in order.
    lanes: Vec<Lane>,
    /// `true` if a lane may have only one delivery in flight, so that each stream stays in order.
    in_order: bool,
    /// Deliveries in flight.
    pub(super) slots: Slots,
    /// The lane of each stream that has events waiting or in flight.
    streams: Streams,
    /// Sequence number of the last batch that was added; 0 before the first one.
    last_sequence: u64,
    /// `true` once no more batches will arrive, so that an incomplete delivery has nothing to wait for.
    is_complete: bool,
    /// `true` while the flow may borrow no more memory.
    is_short: bool,
    /// Load of each lane when [`Backlog::update_loads`] last ran, plus the events assigned since.
    loads: Vec<Load>,
    retained: RetainedMemory,
    /// Memory of deliveries in bytes from which on no further batch is received; `None` if only their number counts.
    most_weight: Option<usize>,
    /// Contains the waiting deliveries while the sink is down and its task waits.
    aside: Aside,
}

/// Upper bound of the memory that deliveries retain, in bytes, including those in flight.
///
/// Finished deliveries are not subtracted until the next exact count.
#[derive(Default)]
struct RetainedMemory {
    /// Bytes at the last exact count, which [`Backlog::compact`] makes.
    counted: usize,
    /// Bytes of the batches that were added since that count.
    added: usize,
}

impl Backlog {
    /// Creates an empty backlog with one lane and one slot. [`Backlog::begin`] adapts it to the sink.
    pub(crate) fn new(batching: Option<Batching>, clock: Clock) -> Self {
        Self {
            batching,
            clock,
            pool: storage_pool(batching, 1, 1),
            lanes: vec![Lane::default()],
            in_order: false,
            slots: Slots::new(1),
            streams: Streams::default(),
            last_sequence: 0,
            is_complete: false,
            is_short: false,
            loads: vec![Load::default()],
            retained: RetainedMemory::default(),
            most_weight: None,
            aside: Aside::default(),
        }
    }

    /// Lets the tasks that share `stalled` give up deliveries that [`Backlog::set_aside`] was called for.
    pub(crate) fn shared_in(self, stalled: &Stalled) -> Self {
        self.aside.share_in(stalled);
        self
    }

    /// Sets the memory of deliveries in bytes from which on no further batch is received. Applies to sinks that do not join
    /// batches.
    pub(crate) fn at_most(self, most_weight: Option<usize>) -> Self {
        Self { most_weight, ..self }
    }

    /// Puts the waiting deliveries where the tasks that feed the sink can give them up. Call [`Backlog::take_back`]
    /// before any other method but [`Backlog::is_aside_empty`].
    pub(crate) fn set_aside(&mut self, handle: &Arc<ConnectorHandle>) {
        if self.has_waiting() {
            let in_flight = self.slots.pending().map(|it| (it.events(), it.weight));
            let in_flight =
                in_flight.fold((0, 0), |(a, b), (events, bytes)| (a + events, b + bytes));
            let empty = self.lanes.iter().map(|_| Lane::default()).collect();
            self.aside.put(std::mem::replace(&mut self.lanes, empty), handle, in_flight);
        }
    }

    /// Takes back what [`Backlog::set_aside`] has put aside and no task has given up.
    pub(crate) fn take_back(&mut self) {
        if let Some(lanes) = self.aside.take() {
            self.lanes = lanes;
        }
    }

    /// Returns whether no delivery is set aside.
    pub(crate) fn is_aside_empty(&self) -> bool {
        self.aside.is_empty()
    }

    /// Returns whether batches are joined and split to fit the limits of a delivery.
    pub(crate) fn is_batching(&self) -> bool {
        self.batching.is_some()
    }

    /// Prepares the backlog for a newly connected sink that may have `slots` deliveries in flight.
    ///
    /// If `in_order` is set, the events of each stream are delivered in order, and there are as many lanes as slots.
    /// Otherwise one lane feeds all slots. If the number of lanes or the limits of a delivery change, waiting batches
    /// are assigned to new lanes in the order in which they arrived. Deliveries that failed may be retried
    /// immediately.
    pub(crate) fn begin(&mut self, slots: usize, in_order: bool, batching: Option<Batching>) {
        let lanes = if in_order { slots } else { 1 };
        let is_other = lanes != self.lanes.len() || batching != self.batching;
        if is_other || slots != self.slots.count() {
            self.pool = storage_pool(batching, slots, lanes);
        }
        (self.in_order, self.batching) = (in_order, batching);
        self.slots = Slots::new(slots);
        if is_other {
            let old = std::mem::take(&mut self.lanes);
            self.lanes.resize_with(lanes, Lane::default);
            (self.loads, self.streams) = (vec![Load::default(); lanes], Streams::default());
            let mut waiting: Vec<Pending> = old.into_iter().flat_map(Lane::into_waiting).collect();
            waiting.sort_by_key(|pending| pending.sequence);
            for part in waiting.into_iter().flat_map(Pending::into_parts) {
                self.assign(part);
            }
        }
        self.lanes.iter_mut().for_each(Lane::try_now);
    }

    /// Returns whether a batch from the queue becomes a delivery unchanged, without waiting in a lane. The condition is
    /// that the sink has a single slot and batches are not joined: the sink then receives a batch only while nothing
    /// else is waiting or in flight.
    pub(crate) fn is_direct(&self) -> bool {
        self.slots.count() == 1 && !self.is_batching()
    }

    /// Puts a batch directly into the only slot, if [`Backlog::is_direct`]. `begun` is the start of the delivery, if
    /// its latency is measured.
    pub(crate) fn begin_direct(&mut self, item: InFlight, encoded: Batch, begun: Option<Instant>) {
        let sequence = self.next_sequence();
        self.slots.put(Pending::in_flight((sequence, 0), item, encoded, begun));
    }

    /// Adds a batch that was received from the queue.
    pub(crate) fn push(&mut self, mut part: Part) {
        part.weigh();
        if self.is_batching() {
            self.retained.added += part.weight;
        }
        self.assign(part);
    }

    /// Returns whether deliveries may retain more memory than the limit allows, so that [`Backlog::compact`] should be
    /// called. The answer is based on an upper bound, so it can be `true` although less memory is retained.
    pub(crate) fn should_compact(&self) -> bool {
        let RetainedMemory { counted, added } = self.retained;
        // An exact count visits every delivery, so it is repeated only after enough bytes were added.
        added > SINK_WAITING_BYTES / 4 && counted + added > self.memory_limit()
    }

    /// Releases memory that deliveries retain beyond their own events, and counts the memory that they still retain.
    ///
    /// A few events of a batch retain the memory of the whole batch. If one lane is blocked, small shares of many
    /// batches can wait there and retain all of these batches. A delivery that retains more than twice its own size,
    /// waiting or in flight, is therefore copied to memory of its own.
    pub(crate) fn compact(&mut self) {
        let waiting: usize = self.lanes.iter_mut().map(Lane::compact).sum();
        let in_flight: usize = self.slots.pending_mut().map(Pending::compact).sum();
        self.retained = RetainedMemory { counted: waiting + in_flight, added: 0 };
    }

    /// Divides a batch among the lanes of its streams.
    fn assign(&mut self, part: Part) {
        let sequence = self.next_sequence();
        if self.lanes.len() == 1 {
            return self.enqueue((sequence, 0), part);
        }
        self.update_loads();
        let assigned = self.streams.assign(&part.item.batch, sequence, &mut self.loads);
        if let [(lane, _)] = assigned[..] {
            return self.enqueue((sequence, lane), part);
        }
        for (lane, positions) in assigned {
            self.enqueue((sequence, lane), part.pick(&positions));
        }
        // Each share has a clone of the token, so the pull stays open until all shares are delivered.
        part.item.token.settle();
    }

    /// Adds a batch, or a share of one, at the end of a lane. `position` is its sequence number and lane.
    ///
    /// A batch that an earlier delivery returned has no encoded form until its next delivery starts. It gets a
    /// delivery of its own, because joining batches appends their encoded forms.
    fn enqueue(&mut self, position: (u64, usize), part: Part) {
        let lane = position.1;
        match self.batching.filter(|_| part.outgoing.is_some()) {
            Some(batching) => {
                let store = Store { pool: &self.pool, divided: self.lanes.len() > 1 };
                self.lanes[lane].join(position, part, batching, store, self.clock.now());
            }
            None => self.lanes[lane].push(Pending::new(position, part)),
        }
    }

    /// Puts a delivery that was not completed, or the remainder of one, back to its original position in its lane, so
    /// that it is delivered before later ones.
    pub(crate) fn put_back(&mut self, mut pending: Pending) {
        pending.weigh();
        pending.end();
        self.lanes[pending.lane].insert(pending);
    }

    /// Cancels the deliveries in flight and puts them back, so that they are repeated on the next connection.
    pub(crate) fn give_up(&mut self, sink: &mut dyn DynSink) {
        let slots = std::mem::replace(&mut self.slots, Slots::new(1));
        slots.give_up(sink).for_each(|pending| self.put_back(pending));
    }

    /// Removes and returns the next delivery that may start now, or `None` if there is none or no slot is free.
    ///
    /// If several lanes are ready, the one whose first delivery arrived earliest is served.
    pub(crate) fn take_next(&mut self) -> Option<Pending> {
        if !self.slots.has_free() || !self.has_waiting() {
            return None;
        }
        self.update_loads();
        let (leaving, now) = (self.leaving(), self.clock.now());
        let ready = self.free_lanes().filter(|lane| self.lanes[*lane].is_ready(leaving, now));
        let lane = ready.min_by_key(|lane| self.lanes[*lane].first())?;
        let store = Store { pool: &self.pool, divided: self.lanes.len() > 1 };
        self.lanes[lane].take(leaving, now, self.batching, store)
    }

    /// Returns the time at which the next waiting delivery may start because its linger time or its retry pause ends.
    /// Returns `None` if no delivery waits for a time, or if no slot is free, because then the next answer starts it.
    ///
    /// Call this only after [`Backlog::take_next`] returned `None`, because it relies on the loads that `take_next`
    /// computed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !self.slots.has_free() {
            return None;
        }
        let leaving = self.leaving();
        self.free_lanes().filter_map(|lane| self.lanes[lane].next_due(leaving)).min()
    }

    /// Returns whether the sink may receive another batch from its queue.
    pub(crate) fn has_capacity(&self) -> bool {
        match self.batching {
            // Several batches may wait, because the next one in the queue may belong to a busy lane.
            None => {
                let waiting: usize = self.lanes.iter().map(Lane::len).sum();
                self.slots.has_free()
                    && waiting < self.slots.count()
                    && self.most_weight.is_none_or(|most| self.weight() < most)
            }
            Some(batching) => {
                // Two full deliveries may wait for each slot, so that the next one is assembled while the slot is busy.
                let events = batching.max_events.get().saturating_mul(2 * self.slots.count());
                let is_within = self.waiting_weight() < SINK_WAITING_BYTES
                    && self.weight() < self.memory_limit();
                self.waiting_events() < events
                    && (is_within || self.fills_large_deliveries(batching))
            }
        }
    }

    /// Returns whether all waiting deliveries are incomplete, and a full delivery may exceed [`SINK_WAITING_BYTES`].
    /// These deliveries are filled beyond that limit; only the memory of the flow limits them.
    fn fills_large_deliveries(&self, batching: Batching) -> bool {
        batching.max_bytes.get() > SINK_WAITING_BYTES / WEIGHT_TO_BYTES
            && self.lanes.iter().all(Lane::is_filling)
    }

    /// Returns the memory of all deliveries in bytes, including those in flight.
    pub(crate) fn weight(&self) -> usize {
        self.waiting_weight() + self.slots.pending().map(|pending| pending.weight).sum::<usize>()
    }

    fn waiting_weight(&self) -> usize {
        self.lanes.iter().map(Lane::weight).sum()
    }

    /// Returns the bytes of memory that waiting and in-flight deliveries may retain together.
    ///
    /// Each slot counts twice, because the source's events are retained beside their encoded form until the sink has
    /// acknowledged them.
    fn memory_limit(&self) -> usize {
        let delivery = self.batching.map_or(0, |batching| batching.max_bytes.get());
        SINK_WAITING_BYTES.saturating_add(delivery.saturating_mul(2 * self.slots.count()))
    }

    /// Marks the input as ended, so that incomplete deliveries no longer wait for more batches. Returns `true` on the
    /// first call.
    pub(crate) fn complete(&mut self) -> bool {
        !std::mem::replace(&mut self.is_complete, true)
    }

    /// Returns whether the input has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether a delivery waits for the answer to an earlier one in its lane.
    pub(crate) fn waits_for_order(&self) -> bool {
        let mut in_flight = self.slots.pending();
        self.in_order && in_flight.any(|pending| self.lanes[pending.lane].len() > 0)
    }

    /// Sets whether the flow may borrow no more memory. While `is_short` is `true`, incomplete deliveries do not wait
    /// for more batches.
    pub(crate) fn set_is_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Returns whether no delivery is waiting or in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.has_waiting()
    }

    /// Returns whether a delivery is waiting. Deliveries in flight do not count.
    pub(crate) fn has_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| lane.len() > 0)
    }

    /// Returns the number of events that are waiting or in flight.
    pub(crate) fn events(&self) -> usize {
        self.waiting_events() + self.slots.pending().map(Pending::events).sum::<usize>()
    }

    fn waiting_events(&self) -> usize {
        self.lanes.iter().map(Lane::events).sum()
    }

    /// Returns the numbers of undelivered events, to be counted when the sink is abandoned.
    pub(crate) fn left(&self) -> Left {
        Left { events: self.events(), lost: self.lanes.iter().map(Lane::lost).sum() }
    }

    /// Fails the waiting events, so that their sources know which events of a pull were not delivered.
    pub(crate) fn fail(mut self) {
        self.take_items().for_each(|item| item.token.fail(item.batch.events()));
    }

    /// Removes and returns the waiting batches. No other method may be called afterwards, except those that count.
    pub(crate) fn take_items(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        let lanes = std::mem::take(&mut self.lanes);
        lanes.into_iter().flat_map(Lane::into_waiting).flat_map(Pending::into_items)
    }

    /// Removes and returns the batches of waiting deliveries, in the order in which they arrived. Call this only while no
    /// delivery is in flight.
    pub(crate) fn take_waiting(&mut self) -> Vec<InFlight> {
        let lanes = self.lanes.iter_mut().map(std::mem::take);
        let mut waiting: Vec<Pending> = lanes.flat_map(Lane::into_waiting).collect();
        waiting.sort_by_key(|pending| pending.sequence);
        self.retained = RetainedMemory::default();
        waiting.into_iter().flat_map(Pending::into_items).collect()
    }

    fn next_sequence(&mut self) -> u64 {
        self.last_sequence += 1;
        self.last_sequence
    }

    /// Returns the rules by which deliveries currently leave their lanes.
    ///
    /// An incomplete delivery does not wait for more batches if none will arrive, if memory is short, or if the
    /// backlog is full and accepts none.
    fn leaving(&self) -> Leaving {
        let at_once = self.is_complete || self.is_short || !self.has_capacity();
        Leaving { in_order: self.in_order, at_once }
    }

    /// Returns the lanes that may start a delivery: all lanes, or with `in_order` those that have none in flight.
    fn free_lanes(&self) -> impl Iterator<Item = usize> {
        let loads = self.loads.iter().enumerate();
        loads.filter(|(_, load)| !(self.in_order && load.is_busy)).map(|(lane, _)| lane)
    }

    /// Recomputes the load of each lane from its waiting deliveries and those in flight.
    fn update_loads(&mut self) {
        for (load, lane) in self.loads.iter_mut().zip(&self.lanes) {
            *load = Load { first: lane.first(), events: lane.events(), is_busy: false };
        }
        for pending in self.slots.pending() {
            let load = &mut self.loads[pending.lane];
            load.add(pending.sequence, pending.events());
            load.is_busy = true;
        }
    }
}

/// Creates the pool of storages in which deliveries are assembled.
///
/// A storage is as large as its delivery, and returns to the pool once the delivery is acknowledged. The pool keeps
/// unused storages for one delivery in each slot, but at least 1 MiB, at most [`SINK_WAITING_BYTES`], and at most
/// [`POOLED`] storages. With several lanes a delivery needs two storages, one for its encoded form and one for the
/// source's events, which are copied so that a share does not retain its whole batch. Without batching the pool keeps
/// nothing.
fn storage_pool(batching: Option<Batching>, slots: usize, lanes: usize) -> Pool {
    let Some(batching) = batching else { return Pool::new(0) };
    let storages = if lanes > 1 { 2 } else { 1 };
    let bytes = batching.max_bytes.get().saturating_mul(STORAGE_TO_BYTES * storages * slots);
    Pool::with_bytes(POOLED, bytes.clamp(1 << 20, SINK_WAITING_BYTES))
}

#[cfg(test)]
mod tests;
