//! A histogram of the duration of a sink's deliveries, filled only if metrics may be requested.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::clock::Clock;

/// Upper bounds (inclusive) of the buckets, in seconds. A further bucket counts longer deliveries.
pub const BOUNDS: [f64; 11] =
    [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// A histogram of the duration of deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Number of deliveries in each bucket of [`BOUNDS`]. The last element counts deliveries that took longer than all
    /// bounds.
    pub counts: [u64; BOUNDS.len() + 1],
    /// Total duration of all counted deliveries.
    pub sum: Duration,
}

/// The counters behind [`Latencies`].
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// The clock by which the duration of deliveries is measured. Deliveries are not measured by default, because each
    /// measurement reads the clock twice.
    clock: OnceLock<Clock>,
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Deliveries {
    /// Turns on the measurement for all deliveries that begin after this call.
    pub(crate) fn watch(&self, clock: &Clock) {
        self.clock.get_or_init(|| clock.clone());
    }

    /// Returns the start of a delivery that begins now, or `None` if deliveries are not measured.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.clock.get().map(Clock::now)
    }

    /// Counts a delivery that began at `begun` and was answered now. Does nothing if `begun` is `None`, because the
    /// delivery is not measured.
    #[inline]
    pub(crate) fn end(&self, begun: Option<Instant>) {
        if let (Some(begun), Some(clock)) = (begun, self.clock.get()) {
            self.count(clock.elapsed(begun));
        }
    }

    /// Counts what took this time.
    pub(crate) fn count(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().take_while(|bound| seconds > **bound).count();
        let nanoseconds = took.as_nanos().try_into().unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the histogram of the deliveries that were measured so far.
    pub(crate) fn latencies(&self) -> Latencies {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        Latencies { counts, sum }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, Deliveries};

    #[test]
    fn delivery_is_counted_in_the_first_bucket_that_fits() {
        let deliveries = Deliveries::default();
        for took in [50, 100, 101, 40_000_000] {
            deliveries.count(Duration::from_micros(took));
        }
        let latencies = deliveries.latencies();
        assert_eq!(latencies.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(latencies.sum, Duration::from_micros(40_000_251));
    }

    #[test]
    fn unwatched_deliveries_do_not_read_the_clock() {
        let deliveries = Deliveries::default();
        assert_eq!(deliveries.begin(), None);
        let clock = Clock::simulated(0);
        deliveries.watch(&clock);
        let begun = deliveries.begin();
        clock.advance(Duration::from_millis(2));
        deliveries.end(begun);
        let latencies = deliveries.latencies();
        assert_eq!(latencies.counts, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(latencies.sum, Duration::from_millis(2));
    }
}
