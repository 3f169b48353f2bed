//! The measurement of a sink, and its start.

use std::sync::{Mutex, MutexGuard, OnceLock};

use hdrhistogram::Histogram;
use tremor_pdk::{lock, prelude::*};

use crate::report::{Latency, Report, distribution};

/// Maximum latency in ns: one minute. A longer latency is recorded as this value.
const LONGEST_NS: u64 = 60_000_000_000;
/// Precision of recorded latencies.
const SIGNIFICANT_FIGURES: u8 = 3;

/// End of the warm-up, which the source and the sink of a connector share.
#[derive(Debug)]
pub(crate) struct Clock {
    warmup_ns: u64,
    /// End of the warm-up in ns since the Unix epoch; set by the first pull or the first event.
    counts_from_ns: OnceLock<u64>,
}

impl Clock {
    pub(crate) fn new(warmup_ns: u64) -> Self {
        Self { warmup_ns, counts_from_ns: OnceLock::new() }
    }

    /// Starts the warm-up unless it has started, and returns its end.
    pub(crate) fn start(&self, now_ns: u64) -> u64 {
        *self.counts_from_ns.get_or_init(|| now_ns.saturating_add(self.warmup_ns))
    }

    /// Returns whether an event that was emitted at `ingest_ns` counts. Without a warm-up every
    /// event counts, including events of another connector that started earlier.
    pub(crate) fn counts(&self, ingest_ns: u64) -> bool {
        self.warmup_ns == 0 || ingest_ns >= self.start(ingest_ns)
    }
}

/// Latencies and counts of the events of a sink, kept across connections.
#[derive(Debug)]
pub(crate) struct Measurement(Mutex<Recording>);

#[derive(Debug)]
pub(crate) struct Recording {
    events: u64,
    bytes: u64,
    /// Time of the first emission, in ns.
    first_ns: u64,
    /// Time of the last arrival, in ns.
    last_ns: u64,
    latencies: Histogram<u64>,
}

impl Measurement {
    pub(crate) fn new() -> Result<Self> {
        let latencies =
            Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_FIGURES).map_err(|error| {
                Error::internal(format!("cannot create the histogram of latencies: {error}"))
            })?;
        let (first_ns, last_ns) = (u64::MAX, 0);
        Ok(Self(Mutex::new(Recording { events: 0, bytes: 0, first_ns, last_ns, latencies })))
    }

    pub(crate) fn recording(&self) -> MutexGuard<'_, Recording> {
        lock(&self.0)
    }

    /// Returns the report and the distribution of latencies.
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
    /// Records `events` events that were emitted at the same time and arrived together.
    pub(crate) fn record(&mut self, now_ns: u64, ingest_ns: u64, events: u64, bytes: u64) {
        self.events += events;
        self.bytes += bytes;
        self.first_ns = self.first_ns.min(ingest_ns);
        self.last_ns = self.last_ns.max(now_ns);
        // If the clock was set back between emission and arrival, the latency counts as zero.
        self.latencies.saturating_record_n(now_ns.saturating_sub(ingest_ns), events);
    }
}
