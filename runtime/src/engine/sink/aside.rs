//! Waiting deliveries of a sink that is down, which the tasks that feed the sink can give up.

use std::sync::{Arc, Mutex};

use tremor_pdk::lock;

use crate::engine::{
    handle::ConnectorHandle,
    queue::stalled::{Stalled, Waiting},
    sink::{lane::Lane, pending::Pending},
    tracking::token::InFlight,
};

/// Waiting deliveries of a sink that is down, which other tasks can give up.
///
/// The task of a sink that stops no source puts its waiting deliveries here whenever it waits while the sink is down,
/// and takes them back before it continues. Deliveries that the plugin has are never among them.
#[derive(Default)]
pub(super) struct Aside {
    kept: Arc<Mutex<Option<Kept>>>,
    /// `true` from [`Aside::put`] to [`Aside::take`].
    is_used: bool,
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

impl Waiting for Mutex<Option<Kept>> {
    fn remove(&self, newest: bool) -> Vec<InFlight> {
        let removed = lock(self).as_mut().and_then(|kept| kept.remove(newest));
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

impl Aside {
    /// Lets the tasks that share `stalled` give up what is put here.
    pub(super) fn share_in(&self, stalled: &Stalled) {
        stalled.set_waiting(self.kept.clone());
    }

    /// Puts waiting deliveries here. `in_flight` contains the events in flight and their memory in bytes.
    pub(super) fn put(
        &mut self,
        lanes: Vec<Lane>,
        handle: &Arc<ConnectorHandle>,
        in_flight: (usize, usize),
    ) {
        let (events, bytes) = in_flight;
        self.is_used = true;
        *lock(&self.kept) = Some(Kept { lanes, handle: handle.clone(), events, bytes });
    }

    /// Takes the deliveries back that no other task has given up.
    pub(super) fn take(&mut self) -> Option<Vec<Lane>> {
        // Called at every poll of a sink, so the usual case takes no lock.
        let kept = if std::mem::take(&mut self.is_used) { lock(&self.kept).take() } else { None };
        kept.map(|kept| kept.lanes)
    }

    /// Returns whether no delivery waits here.
    pub(super) fn is_empty(&self) -> bool {
        let has_any = |kept: &Kept| kept.lanes.iter().any(|it| it.len() > 0);
        !self.is_used || !lock(&self.kept).as_ref().is_some_and(has_any)
    }
}

impl Drop for Aside {
    /// Drops what is left here, so that its events fail although other tasks still share the deliveries.
    fn drop(&mut self) {
        drop(self.take());
    }
}
