//! Lanes of a sink. A lane is a queue of waiting deliveries. New batches are joined to the last delivery.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use crate::engine::sink::pending::{Part, Pending, State, Store};

/// Limits of a delivery. Small batches are joined and large ones are split to fit them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    /// Maximum number of events.
    pub(crate) max_events: NonZeroUsize,
    /// Maximum number of encoded bytes. A single event may exceed this number.
    pub(crate) max_bytes: NonZeroUsize,
    /// Maximum time that an event waits for other events of its delivery.
    pub(crate) linger: Duration,
}

/// Waiting deliveries in the order of their sequence numbers. Batches may be joined to the last one.
#[derive(Default)]
pub(super) struct Lane(VecDeque<Pending>);

/// Rules by which deliveries leave a lane.
#[derive(Clone, Copy)]
pub(super) struct Leaving {
    /// `true` if only the first delivery may leave.
    pub(super) in_order: bool,
    /// `true` if incomplete deliveries do not wait for more batches.
    pub(super) at_once: bool,
}

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the lane is empty, or contains only one delivery to which batches can still be joined.
    pub(super) fn is_filling(&self) -> bool {
        self.0.len() <= 1 && self.0.iter().all(|pending| pending.filled().is_some())
    }

    /// Returns the number of waiting events.
    pub(super) fn events(&self) -> usize {
        self.0.iter().map(Pending::events).sum()
    }

    /// Returns the number of waiting events whose source is not notified if they fail.
    pub(super) fn lost(&self) -> usize {
        self.0.iter().map(Pending::lost).sum()
    }

    /// Returns the memory of the waiting deliveries in bytes.
    pub(super) fn weight(&self) -> usize {
        self.0.iter().map(|pending| pending.weight).sum()
    }

    /// Releases memory that waiting deliveries retain beyond their own events: see [`Pending::compact`]. Returns the
    /// bytes that they still retain.
    pub(super) fn compact(&mut self) -> usize {
        self.0.iter_mut().map(Pending::compact).sum()
    }

    /// Returns the sequence number of the first waiting delivery.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.front().map(|pending| pending.sequence)
    }

    /// Returns the sequence number of the last waiting delivery.
    pub(super) fn last(&self) -> Option<u64> {
        self.0.back().map(|pending| pending.sequence)
    }

    pub(super) fn pop_first(&mut self) -> Option<Pending> {
        self.0.pop_front()
    }

    pub(super) fn pop_last(&mut self) -> Option<Pending> {
        self.0.pop_back()
    }

    pub(super) fn into_waiting(self) -> impl Iterator<Item = Pending> {
        self.0.into_iter()
    }

    /// Lets all waiting deliveries that have failed be retried immediately.
    pub(super) fn try_now(&mut self) {
        self.0.iter_mut().for_each(Pending::try_now);
    }

    /// Inserts a delivery in the order of sequence numbers. It is inserted before deliveries with the same number,
    /// because it was cut off from the front of the same batch.
    pub(super) fn insert(&mut self, pending: Pending) {
        let at = self.0.partition_point(|other| other.sequence < pending.sequence);
        self.0.insert(at, pending);
    }

    /// Adds a delivery at the end. No more batches are joined to the deliveries before it.
    pub(super) fn push(&mut self, pending: Pending) {
        self.close();
        self.0.push_back(pending);
    }

    /// Joins as much of a batch as fits to the last delivery, and begins further deliveries with the remainder.
    ///
    /// If no delivery is being filled, a batch that has the size of a full delivery becomes a delivery without a copy.
    /// The linger time of a delivery that is not full begins at `now`.
    pub(super) fn join(
        &mut self,
        position: (u64, usize),
        mut part: Part,
        batching: Batching,
        store: Store<'_>,
        now: Instant,
    ) {
        let (max_events, max_bytes) = (batching.max_events.get(), batching.max_bytes.get());
        loop {
            if self.0.back().is_some_and(|last| !last.fits(&part)) {
                self.close();
            }
            let open = self.0.back_mut().and_then(|last| Some((last.filled()?, last)));
            let (bytes, events) = open.as_ref().map_or((0, 0), |(it, last)| (*it, last.events()));
            let least = usize::from(open.is_none());
            let (count, size) =
                part.fitting(least, max_events - events, max_bytes.saturating_sub(bytes));
            if count == 0 {
                self.close();
                continue;
            }
            let (first, remainder) = part.cut(count);
            let is_full =
                remainder.is_some() || events + count >= max_events || bytes + size >= max_bytes;
            if let Some((_, last)) = open {
                last.join(first, size);
            } else {
                self.0.push_back(if is_full {
                    Pending::new(position, first)
                } else {
                    let until = now + batching.linger;
                    Pending::filling(position, first, size, until, store)
                });
            }
            if is_full {
                self.close();
            }
            let Some(remainder) = remainder else { return };
            if remainder.fitting(0, max_events, max_bytes).0 < remainder.events() {
                return self.0.push_back(Pending::oversized(position, remainder));
            }
            part = remainder;
        }
    }

    /// Cuts the first delivery off a batch that is larger than a delivery, and puts the remainder back at index `at`.
    ///
    /// A cut copies every event after it. Therefore the batch is first cut in the middle, then its first half, and so
    /// on until one delivery is left. To divide `n` events into deliveries this way copies each event about log2(n)
    /// times. If each delivery were cut off from the whole remainder, an event would be copied once for each delivery
    /// before it. Up to about log2(n) remainders wait in the lane meanwhile.
    fn cut(
        &mut self,
        at: usize,
        pending: Pending,
        batching: Batching,
        store: Store<'_>,
        now: Instant,
    ) -> Option<Pending> {
        let (max_events, max_bytes) = (batching.max_events.get(), batching.max_bytes.get());
        let position = pending.position();
        let mut part = pending.into_parts().next()?;
        let (count, _) = part.fitting(1, max_events, max_bytes);
        loop {
            let end = part.middle(max_events, max_bytes).max(count);
            let (first, remainder) = part.cut(end);
            if let Some(remainder) = remainder {
                if at == self.0.len() {
                    self.join(position, remainder, batching, store, now);
                } else {
                    self.0.insert(at, Pending::oversized(position, remainder));
                }
            }
            if end == count {
                return Some(Pending::new(position, first));
            }
            part = first;
        }
    }

    /// Completes the last delivery, so that no more batches are joined to it.
    fn close(&mut self) {
        self.0.back_mut().into_iter().for_each(Pending::close);
    }

    /// Returns whether a delivery may leave at `now`.
    pub(super) fn is_ready(&self, leaving: Leaving, now: Instant) -> bool {
        self.ready(leaving, now).is_some()
    }

    /// Returns the time at which the next delivery may leave, or `None` if no delivery waits for a time.
    pub(super) fn next_due(&self, leaving: Leaving) -> Option<Instant> {
        self.dues(leaving).flatten().min()
    }

    /// Removes and returns the first delivery that may leave at `now`.
    pub(super) fn take(
        &mut self,
        leaving: Leaving,
        now: Instant,
        batching: Option<Batching>,
        store: Store<'_>,
    ) -> Option<Pending> {
        let at = self.ready(leaving, now)?;
        let mut pending = self.0.remove(at)?;
        pending.close();
        match batching.filter(|_| matches!(pending.state, State::Oversized { .. })) {
            Some(batching) => self.cut(at, pending, batching, store, now),
            None => Some(pending),
        }
    }

    /// Returns the index of the first delivery that may leave at `now`.
    fn ready(&self, leaving: Leaving, now: Instant) -> Option<usize> {
        self.dues(leaving).position(|due| due.is_none_or(|due| due <= now))
    }

    /// Returns an entry for each delivery that may be the next to leave: the time until which it waits, or `None` if it
    /// does not wait.
    fn dues(&self, leaving: Leaving) -> impl Iterator<Item = Option<Instant>> {
        let count = if leaving.in_order { 1 } else { self.0.len() };
        self.0.iter().take(count).map(move |it| it.due(leaving.at_once))
    }
}
