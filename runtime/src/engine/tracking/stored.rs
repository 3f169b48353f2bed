//! Numbers of the events of a queue on disk.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Numbers of the events that a queue on disk contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// Events that the queue contained when it was opened.
    pub at_start: u64,
    /// Events that the queue contains now: durable ones that the sink has not delivered.
    pub now: u64,
}

/// The counters behind [`Stored`].
#[derive(Debug, Default)]
pub(crate) struct StoredCounters {
    at_start: AtomicU64,
    /// Events that became durable in this run.
    added: AtomicU64,
    /// Events that were settled in this run.
    settled: AtomicU64,
}

impl StoredCounters {
    pub(crate) fn opened(&self, events: u64) {
        self.at_start.store(events, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, events: u64) {
        self.added.fetch_add(events, Ordering::Release);
    }

    pub(crate) fn settle(&self, events: u64) {
        self.settled.fetch_add(events, Ordering::Relaxed);
    }

    pub(crate) fn stored(&self) -> Stored {
        let settled = self.settled.load(Ordering::Relaxed);
        let at_start = self.at_start.load(Ordering::Relaxed);
        let added = self.added.load(Ordering::Acquire);
        Stored { at_start, now: (at_start + added).saturating_sub(settled) }
    }
}
