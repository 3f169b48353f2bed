//! What was measured, and from when on.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hdrhistogram::Histogram;
use tremor_pdk::prelude::*;

use crate::report::{Latency, Report, distribution};

/// Latencies are kept to three significant figures from 1 ns to this, one minute. What took longer
/// counts as this.
const LONGEST_NS: u64 = 60_000_000_000;
const SIGNIFICANT_FIGURES: u8 = 3;

/// When the warm-up is over, for both sides of a connector.
#[derive(Debug)]
pub(crate) struct Clock {
    warmup_ns: u64,
    /// In ns since the Unix epoch; set by the first event.
    counts_from_ns: OnceLock<u64>,
}

impl Clock {
    pub(crate) fn new(warmup_ns: u64) -> Self {
        Self { warmup_ns, counts_from_ns: OnceLock::new() }
    }

    /// Starts the warm-up, if it has not begun, and says when it is over.
    pub(crate) fn start(&self, now_ns: u64) -> u64 {
        *self.counts_from_ns.get_or_init(|| now_ns.saturating_add(self.warmup_ns))
    }

    /// Whether what was taken in then counts. Without a warm-up everything does, from the source of
    /// another connector too, which may have begun before this one.
    pub(crate) fn counts(&self, ingest_ns: u64) -> bool {
        self.warmup_ns == 0 || ingest_ns >= self.start(ingest_ns)
    }
}

/// What arrived at a sink. Outlives its connection.
#[derive(Debug)]
pub(crate) struct Measurement(Mutex<Recording>);

#[derive(Debug)]
pub(crate) struct Recording {
    events: u64,
    bytes: u64,
    /// When the first of them was taken in, and the last arrived.
    first_ns: u64,
    last_ns: u64,
    latencies: Histogram<u64>,
}

impl Measurement {
    pub(crate) fn new() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_FIGURES)
            .map_err(|error| Error::internal(format!("no histogram: {error}")))?;
        let (first_ns, last_ns) = (u64::MAX, 0);
        Ok(Self(Mutex::new(Recording { events: 0, bytes: 0, first_ns, last_ns, latencies })))
    }

    pub(crate) fn recording(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came of it, and the distribution of latencies.
    pub(crate) fn report(&self, clock: &Clock) -> (Report, String) {
        let recording = self.recording();
        let Recording { events, bytes, first_ns, last_ns, latencies } = &*recording;
        let counts_from_ns = clock.counts_from_ns.get().unwrap_or(first_ns);
        let elapsed_ns = last_ns.saturating_sub(*first_ns.min(counts_from_ns));
        let report = Report::new(*events, *bytes, elapsed_ns, Latency::of(latencies));
        (report, distribution(latencies))
    }
}

impl Recording {
    /// Counts events that were sent at one time and arrived together.
    pub(crate) fn record(&mut self, now_ns: u64, ingest_ns: u64, events: u64, bytes: u64) {
        self.events += events;
        self.bytes += bytes;
        self.first_ns = self.first_ns.min(ingest_ns);
        self.last_ns = self.last_ns.max(now_ns);
        // A clock that was set back in between tells nothing: not less than no time.
        self.latencies.saturating_record_n(now_ns.saturating_sub(ingest_ns), events);
    }
}
