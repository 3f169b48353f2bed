//! Gauges that show the size of a queue.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use serde::Serialize;

use crate::memory::{Account, Charge};

/// Events that wait in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Number of events.
    pub events: usize,
    /// Memory of the events, in bytes.
    pub bytes: usize,
}

/// A queue's number of events and bytes, which any task can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    events: AtomicUsize,
    bytes: AtomicUsize,
    /// Memory of the component for which the queue is counted. Empty until [`Gauge::count_in`] was called.
    charge: OnceLock<Charge>,
}

impl Gauge {
    /// Sets the size of the queue. `waiting` is the size in bytes of the batches whose senders wait for capacity. These
    /// bytes count as memory of the component, but [`Gauge::queue`] does not include them.
    pub(crate) fn set(&self, Queue { events, bytes }: Queue, waiting: usize) {
        self.0.events.store(events, Ordering::Relaxed);
        self.0.bytes.store(bytes, Ordering::Relaxed);
        if let Some(charge) = self.0.charge.get() {
            charge.set(bytes + waiting);
        }
    }

    /// Counts the queue in the memory of a component from the next [`Gauge::set`] on. Only the first call has an
    /// effect.
    pub(crate) fn count_in(&self, component: Arc<Account>) {
        self.0.charge.get_or_init(|| Charge::new(component));
    }

    pub(crate) fn events(&self) -> usize {
        self.0.events.load(Ordering::Relaxed)
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue { events: self.events(), bytes: self.0.bytes.load(Ordering::Relaxed) }
    }
}
