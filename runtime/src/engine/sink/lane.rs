//! Deliveries of a sink that wait in a row, and those of them that are made as one.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use crate::engine::sink::pending::{Extent, Pending};

/// How small batches are put together for a sink, and large ones taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    /// How many events a delivery has at most.
    pub(crate) max_events: NonZeroUsize,
    /// How many bytes it has at most, unless a single event has more.
    pub(crate) max_bytes: NonZeroUsize,
    /// How long an event waits for others at most.
    pub(crate) linger: Duration,
}

/// Deliveries that wait, in order.
#[derive(Default)]
pub(super) struct Lane {
    waiting: VecDeque<Pending>,
    events: usize,
    /// Of those that wait for others.
    joining: Extent,
}

/// How deliveries leave a lane.
#[derive(Clone, Copy)]
pub(super) struct Leaving {
    pub(super) batching: Option<Batching>,
    /// Only the first one may.
    pub(super) in_order: bool,
    /// None waits for others.
    pub(super) at_once: bool,
}

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.events
    }

    pub(super) fn joining(&self) -> Extent {
        self.joining
    }

    /// The place of the first.
    pub(super) fn first(&self) -> Option<u64> {
        self.waiting.front().map(|pending| pending.place)
    }

    pub(super) fn into_waiting(self) -> impl Iterator<Item = Pending> {
        self.waiting.into_iter()
    }

    /// All of them may be tried again.
    pub(super) fn try_now(&mut self) {
        self.waiting.iter_mut().for_each(|pending| pending.due = None);
    }

    /// Adds one in its place, which mostly is the last.
    pub(super) fn insert(&mut self, pending: Pending) {
        let is_last = self.waiting.back().is_none_or(|last| last.place < pending.place);
        let place = pending.place;
        let at = if is_last {
            self.waiting.len()
        } else {
            self.waiting.partition_point(|other| other.place < place)
        };
        self.put(at, pending);
    }

    /// Whether one of them may leave now.
    pub(super) fn is_ready(&self, leaving: Leaving, now: Instant) -> bool {
        self.ready(leaving, now).is_some()
    }

    /// When one of them may leave that waits.
    pub(super) fn next_due(&self, leaving: Leaving) -> Option<Instant> {
        self.candidates(leaving).filter_map(|pending| self.due(pending, leaving)).min()
    }

    /// Takes the first one that may leave now, with those that are delivered together with it.
    pub(super) fn take(&mut self, leaving: Leaving, now: Instant) -> Option<Pending> {
        let at = self.ready(leaving, now)?;
        let mut pending = self.remove(at)?;
        if let (Some(_), Some(batching)) = (pending.since, leaving.batching) {
            self.fill(&mut pending, at, batching);
            pending.since = None;
        }
        Some(pending)
    }

    fn ready(&self, leaving: Leaving, now: Instant) -> Option<usize> {
        self.candidates(leaving)
            .position(|pending| self.due(pending, leaving).is_none_or(|due| due <= now))
    }

    fn candidates(&self, leaving: Leaving) -> impl Iterator<Item = &Pending> {
        let count = if leaving.in_order { 1 } else { self.waiting.len() };
        self.waiting.iter().take(count)
    }

    /// Until when it waits, if it does.
    fn due(&self, pending: &Pending, leaving: Leaving) -> Option<Instant> {
        match (pending.since, leaving.batching) {
            (Some(_), Some(batching)) if leaving.at_once || self.is_full(batching) => None,
            (Some(since), Some(batching)) => Some(since + batching.linger),
            _ => pending.due,
        }
    }

    fn is_full(&self, batching: Batching) -> bool {
        self.joining.events >= batching.max_events.get()
            || self.joining.bytes >= batching.max_bytes.get()
    }

    /// Adds what follows to a delivery, as much as fits; the rest stays.
    fn fill(&mut self, pending: &mut Pending, at: usize, batching: Batching) {
        let (max_events, max_bytes) = (batching.max_events.get(), batching.max_bytes.get());
        if !pending.extent().fits(max_events, max_bytes) {
            let fitting = pending.fitting(max_events, max_bytes).max(1);
            if fitting < pending.events() {
                return self.put(at, pending.split_off(fitting));
            }
        }
        while self.waiting.get(at).is_some_and(|next| next.since.is_some()) {
            let Some(mut next) = self.remove(at) else { return };
            let extent = pending.extent();
            let events = max_events.saturating_sub(extent.events);
            let bytes = max_bytes.saturating_sub(extent.bytes);
            if next.extent().fits(events, bytes) {
                pending.join(next);
                continue;
            }
            let fitting = next.fitting(events, bytes);
            if fitting == 0 {
                return self.put(at, next);
            }
            let rest = next.split_off(fitting);
            pending.join(next);
            return self.put(at, rest);
        }
    }

    fn put(&mut self, at: usize, pending: Pending) {
        self.events += pending.events();
        if pending.since.is_some() {
            self.joining += pending.extent();
        }
        self.waiting.insert(at, pending);
    }

    fn remove(&mut self, at: usize) -> Option<Pending> {
        let pending = self.waiting.remove(at)?;
        self.events -= pending.events();
        if pending.since.is_some() {
            self.joining -= pending.extent();
        }
        Some(pending)
    }
}
