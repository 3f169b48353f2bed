//! How long to wait before trying again, and how often.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use crate::flow;

/// When something that has failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Attempts that may follow one that has failed, in a row; `None`: any number.
    pub(crate) attempts: Option<u64>,
    /// The bound of the first wait.
    pub(crate) first: Duration,
    /// The bound of the longest.
    pub(crate) max: Duration,
}

impl Policy {
    /// What a flow says, and what holds where it says nothing.
    pub(crate) fn of(set: flow::Retry, max: Duration) -> Self {
        let first = set.backoff.unwrap_or(Duration::from_millis(100));
        Self { attempts: set.attempts, first, max: set.max_backoff.unwrap_or(max.max(first)) }
    }
}

/// Attempts that have failed in a row.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: Policy,
    failed: u64,
    backoff: Backoff,
}

impl Attempts {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, failed: 0, backoff: Backoff::new(policy) }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How many have failed in a row.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// One has failed. Whether another may follow.
    pub(crate) fn fail(&mut self) -> bool {
        self.failed += 1;
        self.policy.attempts.is_none_or(|attempts| self.failed <= attempts)
    }

    /// The wait before the next one.
    pub(crate) fn wait(&mut self) -> Duration {
        self.backoff.next()
    }

    /// One has succeeded, or is as good as one that has: all counts begin again.
    pub(crate) fn restart(&mut self) {
        if self.failed > 0 || !self.backoff.is_first() {
            *self = Self::new(self.policy);
        }
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failed {
            1 => f.write_str("1 attempt"),
            failed => write!(f, "{failed} attempts"),
        }
    }
}

/// Exponential backoff with full jitter: the bound of each wait is twice the last, up to a maximum,
/// and the wait is any time up to that, so that many connectors that lost the same peer do not return at once.
#[derive(Debug)]
struct Backoff {
    max: Duration,
    bound: Duration,
    random: RandomState,
    waits: u64,
}

impl Backoff {
    fn new(policy: Policy) -> Self {
        let Policy { first, max, .. } = policy;
        Self { max, bound: first.min(max), random: RandomState::new(), waits: 0 }
    }

    fn is_first(&self) -> bool {
        self.waits == 0
    }

    fn next(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = bound.saturating_mul(2).min(self.max);
        self.waits += 1;
        // A hash with a random seed is random enough to spread attempts.
        let part = u32::try_from(self.random.hash_one(self.waits) >> 32).unwrap_or(u32::MAX);
        bound.mul_f64(f64::from(part) / f64::from(u32::MAX))
    }
}

/// The time that a [`Budget`] is for.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);

/// Allows something so many times within any minute.
#[derive(Debug, Default)]
pub(crate) struct Budget<const MOST: usize> {
    taken: VecDeque<Instant>,
}

/// Allows so many restarts, after which a component has failed for good.
pub(crate) type RestartBudget = Budget<3>;

impl<const MOST: usize> Budget<MOST> {
    /// How often.
    pub(crate) const MOST: usize = MOST;

    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes one, if there is one left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        while self.taken.front().is_some_and(|first| now.saturating_duration_since(*first) > WINDOW)
        {
            self.taken.pop_front();
        }
        let allowed = self.taken.len() < MOST;
        if allowed {
            self.taken.push_back(now);
        }
        allowed
    }

    /// When there is one left again, where none was.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        self.taken.front().map(|first| *first + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, Policy, RestartBudget, WINDOW};
    use std::time::{Duration, Instant};

    const MS: Duration = Duration::from_millis(1);

    fn attempts(attempts: Option<u64>) -> Attempts {
        Attempts::new(Policy { attempts, first: 100 * MS, max: 300 * MS })
    }

    #[test]
    fn waits_are_anywhere_below_a_bound_that_doubles_up_to_the_maximum() {
        let mut below = [false; 4];
        // That none of so many is in the lower half happens once in 2^100 times.
        for _ in 0..100 {
            let mut attempts = attempts(None);
            for (bound, below) in [100, 200, 300, 300].into_iter().zip(&mut below) {
                let wait = attempts.wait();
                assert!(wait <= bound * MS, "{wait:?} of {bound} ms");
                *below |= wait < bound * MS / 2;
            }
        }
        assert_eq!(below, [true; 4], "full jitter goes down to nothing");
    }

    #[test]
    fn so_many_attempts_follow_one_that_has_failed_and_all_again_after_one_that_has_not() {
        assert!(!attempts(Some(0)).fail());
        let mut two = attempts(Some(2));
        for _ in 0..2 {
            assert_eq!([two.fail(), two.fail(), two.fail()], [true, true, false]);
            assert_eq!(two.failed(), 3);
            (0..10).for_each(|_| _ = two.wait());
            two.restart();
            assert!(two.wait() <= 100 * MS, "backoff begins again as well");
            two.restart();
        }
        let mut any = attempts(None);
        assert!((0..100_000).all(|_| any.fail()));
    }

    #[test]
    fn restarts_are_counted_within_the_window_only() {
        let mut budget = RestartBudget::new();
        let start = Instant::now();
        assert!((0..RestartBudget::MOST).all(|_| budget.take(start)));
        assert!(!budget.take(start));
        assert_eq!(budget.renewed(), Some(start + WINDOW));
        assert!(budget.take(start + WINDOW + MS));
    }
}
