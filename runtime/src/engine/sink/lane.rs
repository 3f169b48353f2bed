//! Deliveries of a sink that wait in a row, and the one at its end that batches are joined to.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use crate::engine::sink::pending::{Part, Pending, Store};

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

/// Deliveries that wait, in order. Others may be joined to the last one.
#[derive(Default)]
pub(super) struct Lane(VecDeque<Pending>);

/// How deliveries leave a lane.
#[derive(Clone, Copy)]
pub(super) struct Leaving {
    /// Only the first one may.
    pub(super) in_order: bool,
    /// None waits for others.
    pub(super) at_once: bool,
}

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing waits but a delivery that others can still be joined to.
    pub(super) fn is_filling(&self) -> bool {
        self.0.len() <= 1 && self.0.iter().all(|pending| pending.filled().is_some())
    }

    /// How many events there are.
    pub(super) fn events(&self) -> usize {
        self.0.iter().map(Pending::events).sum()
    }

    /// Returns the number of events whose source is not told if they fail.
    pub(super) fn lost(&self) -> usize {
        self.0.iter().map(Pending::lost).sum()
    }

    /// How much memory they take, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.0.iter().map(|pending| pending.weight).sum()
    }

    /// Has each let go of what it keeps besides its events: see [`Pending::let_go`].
    pub(super) fn let_go(&mut self) -> usize {
        self.0.iter_mut().map(Pending::let_go).sum()
    }

    /// The place of the first.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.front().map(|pending| pending.place)
    }

    pub(super) fn into_waiting(self) -> impl Iterator<Item = Pending> {
        self.0.into_iter()
    }

    /// All that have failed may be tried again.
    pub(super) fn try_now(&mut self) {
        self.0.iter_mut().for_each(Pending::try_now);
    }

    /// Adds one in its place: before what came after it, and before what it was cut off from.
    pub(super) fn insert(&mut self, pending: Pending) {
        let at = self.0.partition_point(|other| other.place < pending.place);
        self.0.insert(at, pending);
    }

    /// Adds one after all others.
    pub(super) fn push(&mut self, pending: Pending) {
        self.close();
        self.0.push_back(pending);
    }

    /// Joins a batch to the last delivery, as much of it as fits, and begins others with what is left. A
    /// batch as large as a delivery is one, without a copy, where none is begun.
    pub(super) fn join(
        &mut self,
        place: (u64, usize),
        mut part: Part,
        batching: Batching,
        store: Store<'_>,
    ) {
        let (max_events, max_bytes) = (batching.max_events.get(), batching.max_bytes.get());
        loop {
            if self.0.back().is_some_and(|last| !last.has_room(&part)) {
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
            let (first, rest) = part.cut(count);
            let is_full =
                rest.is_some() || events + count >= max_events || bytes + size >= max_bytes;
            if let Some((_, last)) = open {
                last.join(first, size);
            } else {
                self.0.push_back(if is_full {
                    Pending::new(place, first)
                } else {
                    let until = Instant::now() + batching.linger;
                    Pending::filling(place, first, size, until, store)
                });
            }
            if is_full {
                self.close();
            }
            let Some(rest) = rest else { return };
            if rest.fitting(0, max_events, max_bytes).0 < rest.events() {
                return self.0.push_back(Pending::oversized(place, rest));
            }
            part = rest;
        }
    }

    /// Takes the first delivery off a batch that is larger than one, and puts the remainder back at `at`.
    ///
    /// Cutting off one delivery copies every event after it. The batch is therefore halved until two
    /// deliveries are left, so that cutting `n` events into deliveries copies each of them about log2(n)
    /// times, and not once for each delivery before it. As many parts wait meanwhile.
    fn cut(
        &mut self,
        at: usize,
        pending: Pending,
        batching: Batching,
        store: Store<'_>,
    ) -> Option<Pending> {
        let (max_events, max_bytes) = (batching.max_events.get(), batching.max_bytes.get());
        let place = pending.place();
        let mut part = pending.into_parts().next()?;
        let (count, _) = part.fitting(1, max_events, max_bytes);
        loop {
            let end = part.middle(max_events, max_bytes).max(count);
            let (first, rest) = part.cut(end);
            if let Some(rest) = rest {
                if at == self.0.len() {
                    self.join(place, rest, batching, store);
                } else {
                    self.0.insert(at, Pending::oversized(place, rest));
                }
            }
            if end == count {
                return Some(Pending::new(place, first));
            }
            part = first;
        }
    }

    /// Nothing more is joined to the last one.
    fn close(&mut self) {
        self.0.back_mut().into_iter().for_each(Pending::close);
    }

    /// Whether one of them may leave now.
    pub(super) fn is_ready(&self, leaving: Leaving, now: Instant) -> bool {
        self.ready(leaving, now).is_some()
    }

    /// When one of them may leave that waits.
    pub(super) fn next_due(&self, leaving: Leaving) -> Option<Instant> {
        self.dues(leaving).flatten().min()
    }

    /// Takes the first one that may leave now.
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
        match batching.filter(|_| pending.is_oversized()) {
            Some(batching) => self.cut(at, pending, batching, store),
            None => Some(pending),
        }
    }

    fn ready(&self, leaving: Leaving, now: Instant) -> Option<usize> {
        self.dues(leaving).position(|due| due.is_none_or(|due| due <= now))
    }

    /// Until when each waits that may be next, if it does.
    fn dues(&self, leaving: Leaving) -> impl Iterator<Item = Option<Instant>> {
        let count = if leaving.in_order { 1 } else { self.0.len() };
        self.0.iter().take(count).map(move |it| it.due(leaving.at_once))
    }
}
