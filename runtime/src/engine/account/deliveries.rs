//! How long the deliveries of a sink take, counted where somebody may ask.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The longest deliveries that are counted together, in seconds. Longer ones come last.
pub const BOUNDS: [f64; 11] =
    [0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// How long deliveries took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// How many there were, by [`BOUNDS`].
    pub counts: [u64; BOUNDS.len() + 1],
    /// How long all of them took.
    pub sum: Duration,
}

/// Counts deliveries.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// Whether they are counted: that takes two looks at the clock each.
    is_watched: AtomicBool,
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Deliveries {
    /// They are counted from now on.
    pub(crate) fn watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// One begins.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.is_watched.load(Ordering::Relaxed).then(Instant::now)
    }

    /// One that began at this time has its answer.
    #[inline]
    pub(crate) fn end(&self, begun: Option<Instant>) {
        if let Some(begun) = begun {
            self.count(begun.elapsed());
        }
    }

    fn count(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = BOUNDS.iter().take_while(|bound| seconds > **bound).count();
        let nanoseconds = took.as_nanos().try_into().unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
    }

    /// How long they took so far.
    pub(crate) fn latencies(&self) -> Latencies {
        let counts = std::array::from_fn(|place| self.counts[place].load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        Latencies { counts, sum }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Deliveries;

    #[test]
    fn a_delivery_is_counted_by_the_first_bound_that_it_keeps() {
        let deliveries = Deliveries::default();
        for took in [50, 100, 101, 40_000_000] {
            deliveries.count(Duration::from_micros(took));
        }
        let latencies = deliveries.latencies();
        assert_eq!(latencies.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(latencies.sum, Duration::from_micros(40_000_251));
    }

    #[test]
    fn the_clock_is_not_looked_at_unless_somebody_may_ask() {
        let deliveries = Deliveries::default();
        assert_eq!(deliveries.begin(), None);
        deliveries.watch();
        deliveries.end(deliveries.begin());
        assert_eq!(deliveries.latencies().counts.iter().sum::<u64>(), 1);
    }
}
