//! State of a sink that the tasks share which feed the queue of the sink.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::engine::tracking::token::InFlight;

/// Deliveries of a sink that wait, and that other tasks can give up while the sink is down.
pub(crate) trait Waiting: Send + Sync {
    /// Removes the oldest delivery, or the newest if `newest` is set, and returns its batches.
    fn remove(&self, newest: bool) -> Vec<InFlight>;
}

/// State of a sink that the tasks share which feed the sink.
#[derive(Default)]
pub(crate) struct Stalled {
    is_down: AtomicBool,
    waiting: OnceLock<Arc<dyn Waiting>>,
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

    /// Sets the deliveries that [`Stalled::remove`] removes. Only the first call has an effect.
    pub(crate) fn set_waiting(&self, waiting: Arc<dyn Waiting>) {
        self.waiting.get_or_init(|| waiting);
    }

    /// Removes a delivery: see [`Waiting::remove`].
    pub(crate) fn remove(&self, newest: bool) -> Vec<InFlight> {
        self.waiting.get().map_or_else(Vec::new, |waiting| waiting.remove(newest))
    }
}

impl std::fmt::Debug for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stalled").field("is_down", &self.is_down).finish_non_exhaustive()
    }
}
