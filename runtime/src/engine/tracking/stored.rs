//! Numbers of a queue on disk.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::Serialize;

use super::deliveries::{Deliveries, Latencies};

/// Numbers of a queue on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stored {
    /// Events that the queue contained when it was opened.
    pub at_start: u64,
    /// Events that the queue contains now: durable ones that the sink has not delivered.
    pub now: u64,
    /// Events of records that the queue delivers again in this run, because events of them were lost without an answer.
    /// The sink and other components count the events of such a record once more, by what became of each of them first.
    pub redelivered: u64,
    /// Bytes of the segments with these events. Updated once a second.
    pub bytes: u64,
    /// Age of the oldest of these events in seconds; `None` if there is none. Updated once a second.
    pub oldest_seconds: Option<f64>,
    /// Parts of the files that were found to be damaged, when the queue was opened or since then. Updated once a second.
    pub damaged_parts: u64,
    /// Histogram of the time until the disk had made written bytes durable.
    #[serde(skip)]
    pub syncs: Latencies,
}

/// The counters behind [`Stored`].
#[derive(Debug, Default)]
pub(crate) struct StoredCounters {
    at_start: AtomicU64,
    /// Events that became durable in this run.
    added: AtomicU64,
    /// Events that were settled in this run.
    settled: AtomicU64,
    redelivered: AtomicU64,
    bytes: AtomicU64,
    damaged_parts: AtomicU64,
    /// Age of the oldest event in ns; [`NONE`] if there is none.
    oldest_ns: AtomicU64,
    syncs: Deliveries,
}

/// Value of an age that does not exist.
const NONE: u64 = 0;

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

    /// Counts the events of a record that is delivered again. Call this after the first outcome of each of them was
    /// counted.
    pub(crate) fn redeliver(&self, events: u64) {
        self.redelivered.fetch_add(events, Ordering::Relaxed);
    }

    /// Sets the bytes of the segments, the number of damaged parts, and the age of the oldest event.
    pub(crate) fn set_condition(&self, bytes: u64, damaged_parts: u64, oldest: Option<Duration>) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.damaged_parts.store(damaged_parts, Ordering::Relaxed);
        let age = oldest.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.oldest_ns.store(age.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// Counts a sync of the disk that took this time.
    pub(crate) fn synced(&self, took: Duration) {
        self.syncs.count(took);
    }

    pub(crate) fn stored(&self) -> Stored {
        let settled = self.settled.load(Ordering::Relaxed);
        let at_start = self.at_start.load(Ordering::Relaxed);
        let added = self.added.load(Ordering::Acquire);
        let oldest = self.oldest_ns.load(Ordering::Relaxed);
        Stored {
            at_start,
            now: (at_start + added).saturating_sub(settled),
            redelivered: self.redelivered.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            oldest_seconds: (oldest != NONE).then(|| Duration::from_nanos(oldest).as_secs_f64()),
            damaged_parts: self.damaged_parts.load(Ordering::Relaxed),
            syncs: self.syncs.latencies(),
        }
    }
}
