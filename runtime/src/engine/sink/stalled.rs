//! Waiting deliveries of a sink that is down, which the tasks that feed the sink can give up.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tremor_pdk::lock;

use crate::engine::{
    handle::ConnectorHandle,
    sink::{lane::Lane, pending::Pending},
    tracking::token::InFlight,
};

/// State of a sink that the tasks share which feed the sink.
///
/// The task of a sink that stops no source puts its waiting deliveries here whenever it waits while the sink is down,
/// and takes them back before it continues. Deliveries that the plugin has are never among them.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    is_down: AtomicBool,
    kept: Mutex<Option<Kept>>,
}

/// Waiting deliveries, with what the sink has in flight meanwhile.
struct Kept {
    lanes: Vec<Lane>,
    handle: Arc<ConnectorHandle>,
    /// Number of events in flight.
    events: usize,
    /// Memory of the events in flight, in bytes.
    bytes: usize,
}

impl Stalled {
    /// Returns whether the sink takes nothing from its queue, because it is down, paused or does not answer.
    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Sets whether the sink is down. Returns the previous state.
    pub(crate) fn set_down(&self, is_down: bool) -> bool {
        self.is_down.swap(is_down, Ordering::Relaxed)
    }

    /// Removes the oldest waiting delivery, or the newest if `newest` is set, and returns its batches.
    pub(crate) fn remove(&self, newest: bool) -> Vec<InFlight> {
        let mut kept = lock(&self.kept);
        let removed = kept.as_mut().and_then(|kept| kept.remove(newest));
        drop(kept);
        removed.map_or_else(Vec::new, |pending| pending.into_items().collect())
    }
}

impl Kept {
    fn remove(&mut self, newest: bool) -> Option<Pending> {
        let waiting = self.lanes.iter_mut().filter(|lane| lane.len() > 0);
        let removed = if newest {
            waiting.max_by_key(|lane| lane.last()).and_then(Lane::pop_last)
        } else {
            waiting.min_by_key(|lane| lane.first()).and_then(Lane::pop_first)
        };
        let events: usize = self.lanes.iter().map(Lane::events).sum();
        let bytes: usize = self.lanes.iter().map(Lane::weight).sum();
        self.handle.set_in_flight(self.events + events);
        self.handle.set_in_flight_bytes(self.bytes + bytes);
        removed
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

/// The part of the sink's task in [`Stalled`]. Deliveries that are left there when the task ends are dropped, so that
/// their events fail.
#[derive(Default)]
pub(super) struct Shelf {
    stalled: Arc<Stalled>,
    /// `true` from [`Shelf::put`] to [`Shelf::take`].
    is_used: bool,
}

impl Shelf {
    pub(super) fn new(stalled: Arc<Stalled>) -> Self {
        Self { stalled, is_used: false }
    }

    /// Puts waiting deliveries where other tasks can give them up. `in_flight` contains the events in flight and their
    /// memory in bytes.
    pub(super) fn put(
        &mut self,
        lanes: Vec<Lane>,
        handle: &Arc<ConnectorHandle>,
        in_flight: (usize, usize),
    ) {
        let (events, bytes) = in_flight;
        self.is_used = true;
        *lock(&self.stalled.kept) = Some(Kept { lanes, handle: handle.clone(), events, bytes });
    }

    /// Takes the deliveries back that no other task has given up.
    pub(super) fn take(&mut self) -> Option<Vec<Lane>> {
        // Called at every poll of a sink, so the usual case takes no lock.
        let kept =
            if std::mem::take(&mut self.is_used) { lock(&self.stalled.kept).take() } else { None };
        kept.map(|kept| kept.lanes)
    }

    /// Returns whether no delivery waits.
    pub(super) fn is_empty(&self) -> bool {
        let has_any = |kept: &Kept| kept.lanes.iter().any(|it| it.len() > 0);
        !self.is_used || !lock(&self.stalled.kept).as_ref().is_some_and(has_any)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        drop(self.take());
    }
}
