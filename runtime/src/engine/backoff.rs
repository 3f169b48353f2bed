//! How long to wait before trying again.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

/// Exponential backoff with jitter: each wait is twice the last, up to a maximum, and of that a
/// random part between a half and all, so that many who lost the same peer do not return as one.
#[derive(Debug)]
pub(crate) struct Backoff {
    max: Duration,
    next: Duration,
    random: RandomState,
    waits: u64,
}

impl Backoff {
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { max, next: first, random: RandomState::new(), waits: 0 }
    }

    /// The wait before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.next.min(self.max);
        self.next = full.saturating_mul(2);
        self.waits += 1;
        // A hash with a random seed is random enough to spread attempts.
        let part = self.random.hash_one(self.waits) % 1_000;
        full.mul_f64(0.5 + 0.5 * f64::from(u32::try_from(part).unwrap_or(0)) / 1_000.0)
    }
}

/// Allows so many restarts within a window of time.
#[derive(Debug)]
pub(crate) struct RestartBudget {
    restarts: VecDeque<Instant>,
}

impl RestartBudget {
    /// Restarts within [`Self::WINDOW`] after which a component has failed for good.
    pub(crate) const RESTARTS: usize = 3;
    /// The time that restarts are counted over.
    pub(crate) const WINDOW: Duration = Duration::from_secs(60);

    pub(crate) fn new() -> Self {
        Self { restarts: VecDeque::new() }
    }

    /// Takes one restart, if there is one left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        while self.restarts.front().is_some_and(|first| now - *first > Self::WINDOW) {
            self.restarts.pop_front();
        }
        let allowed = self.restarts.len() < Self::RESTARTS;
        if allowed {
            self.restarts.push_back(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, RestartBudget};
    use std::time::{Duration, Instant};

    #[test]
    fn waits_double_up_to_the_maximum() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(300));
        for full in [100, 200, 300, 300] {
            let wait = backoff.next();
            assert!(wait >= ms(full / 2) && wait <= ms(full), "{wait:?} of {full} ms");
        }
    }

    #[test]
    fn restarts_are_counted_within_the_window_only() {
        let mut budget = RestartBudget::new();
        let start = Instant::now();
        assert!((0..RestartBudget::RESTARTS).all(|_| budget.take(start)));
        assert!(!budget.take(start));
        assert!(budget.take(start + RestartBudget::WINDOW + Duration::from_secs(1)));
    }
}
