//! How long to wait before trying again, and how often.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use tremor_pdk::{Error, ErrorKind};

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
#[derive(Clone, Debug)]
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

    /// Returns whether an attempt has failed or was deferred since the counts began.
    pub(crate) fn has_waited(&self) -> bool {
        !self.backoff.is_first()
    }

    /// One has failed. Whether another may follow.
    pub(crate) fn fail(&mut self) -> bool {
        self.failed += 1;
        self.policy.attempts.is_none_or(|attempts| self.failed <= attempts)
    }

    /// Counts an attempt that failed with `error`, unless the peer had no part in the failure: the system lacked
    /// resources, or nothing was attempted. Returns whether another attempt may follow.
    pub(crate) fn fail_with(&mut self, error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::SHORTAGE | ErrorKind::DEFERRED) || self.fail()
    }

    /// The wait before the next one.
    pub(crate) fn wait(&mut self) -> Duration {
        self.backoff.next()
    }

    /// Returns the wait before the attempt that follows `error`. If nothing was attempted, the wait is the time that
    /// the error names, so that deferred attempts do not lengthen the waits after failed ones.
    pub(crate) fn wait_after(&mut self, error: &Error) -> Duration {
        if error.kind() == ErrorKind::DEFERRED && !error.delay().is_zero() {
            self.backoff.waits += 1;
            return error.delay();
        }
        self.wait().max(error.delay())
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
#[derive(Clone, Debug)]
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

/// Allows something so many times within a window.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    within: Duration,
    taken: VecDeque<Instant>,
}

impl Budget {
    pub(crate) fn new(most: u64, within: Duration) -> Self {
        Self { most, within, taken: VecDeque::new() }
    }

    /// Takes one, if there is one left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let is_over = |first: &mut Instant| now.saturating_duration_since(*first) > self.within;
        while self.taken.pop_front_if(is_over).is_some() {}
        let allowed = (self.taken.len() as u64) < self.most;
        if allowed {
            self.taken.push_back(now);
        }
        allowed
    }

    /// When there is one left again, where none was.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        self.taken.front().map(|first| *first + self.within)
    }
}

/// When a connector that has failed is restarted.
#[derive(Debug)]
pub(crate) struct Restarts {
    budget: Budget,
    policy: Policy,
    backoff: Backoff,
}

impl Restarts {
    /// What a flow says, and what holds where it says nothing. Waits have the bounds of `policy`.
    pub(crate) fn of(set: flow::Restart, policy: Policy) -> Self {
        let within = set.within.unwrap_or(Duration::from_mins(1));
        let budget = Budget::new(set.attempts.unwrap_or(5), within);
        Self { budget, policy, backoff: Backoff::new(policy) }
    }

    /// Takes a restart after this error: the wait before it. A shortage of the system's resources takes none, so that
    /// restarts are left when it has passed.
    ///
    /// # Errors
    /// There is none left.
    pub(crate) fn after(&mut self, error: &Error) -> Result<Duration, Error> {
        self.after_at(error, Instant::now())
    }

    fn after_at(&mut self, error: &Error, now: Instant) -> Result<Duration, Error> {
        // Another instance of the component cannot end a shortage, and did not cause it.
        if error.kind().is_shortage() {
            return Ok(self.backoff.next().max(error.delay()));
        }
        let Budget { most, within, .. } = self.budget;
        if !self.budget.take(now) {
            let error = error.clone();
            return Err(match most {
                0 => error,
                1 => error.context(format_args!("failed again after a restart within {within:?}")),
                _ => error
                    .context(format_args!("failed again after {most} restarts within {within:?}")),
            });
        }
        if self.budget.taken.len() == 1 {
            self.backoff = Backoff::new(self.policy);
        }
        Ok(self.backoff.next().max(error.delay()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, Budget, Policy, Restarts};
    use crate::flow;
    use std::time::{Duration, Instant};
    use tremor_pdk::Error;

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
    fn shortages_and_deferrals_are_not_counted_as_attempts() {
        let mut none = attempts(Some(0));
        assert!((0..100).all(|_| none.fail_with(&Error::shortage("too many open files"))));
        assert!((0..100).all(|_| none.fail_with(&Error::deferred("later"))));
        assert!(!none.fail_with(&Error::full("429")));
    }

    #[test]
    fn deferrals_do_not_lengthen_waits_after_failures() {
        let (mut many, later) = (attempts(None), Error::deferred("later").retry_after(700 * MS));
        assert!((0..100).all(|_| many.wait_after(&later) == 700 * MS));
        assert!(many.has_waited());
        assert!(many.wait_after(&Error::full("429")) <= 100 * MS, "the first bound");
        many.restart();
        assert!(!many.has_waited());
    }

    #[test]
    fn a_budget_counts_within_its_window_only() {
        let window = Duration::from_mins(1);
        let (mut budget, start) = (Budget::new(3, window), Instant::now());
        assert!((0..3).all(|_| budget.take(start)));
        assert!(!budget.take(start));
        assert_eq!(budget.renewed(), Some(start + window));
        assert!(budget.take(start + window + MS));
    }

    fn restarts(attempts: Option<u64>, within: Option<Duration>) -> Restarts {
        let policy = Policy { attempts: None, first: 100 * MS, max: 300 * MS };
        Restarts::of(flow::Restart { attempts, within }, policy)
    }

    #[test]
    fn after_the_last_restart_of_a_window_the_error_says_how_many_there_were() {
        let (error, start) = (Error::internal("broken"), Instant::now());
        for (mut restarts, most, says) in [
            (restarts(None, None), 5, "failed again after 5 restarts within 60s: broken"),
            (restarts(Some(1), Some(9 * MS)), 1, "failed again after a restart within 9ms: broken"),
            (restarts(Some(0), None), 0, "broken"),
        ] {
            assert!((0..most).all(|_| restarts.after_at(&error, start).is_ok()));
            let last = restarts.after_at(&error, start).unwrap_err().to_string();
            assert!(last.ends_with(says), "{last}");
        }
    }

    #[test]
    fn shortages_take_no_restart_from_the_budget() {
        let (error, start) = (Error::internal("broken"), Instant::now());
        let mut restarts = restarts(Some(1), None);
        for shortage in [Error::shortage("too many open files"), Error::full("disk")] {
            assert!((0..100).all(|_| restarts.after_at(&shortage, start).is_ok()));
        }
        assert!(restarts.after_at(&error, start).is_ok());
        assert!(restarts.after_at(&error, start).is_err());
    }

    #[test]
    fn the_waits_before_restarts_grow_within_a_window_and_are_as_long_as_the_error_says() {
        let (error, start) = (Error::internal("broken"), Instant::now());
        let mut restarts = restarts(None, None);
        for window in 0..100 {
            let now = start + window * Duration::from_secs(61);
            for bound in [100, 200, 300] {
                assert!(restarts.after_at(&error, now).unwrap() <= bound * MS);
            }
        }
        let named = error.retry_after(Duration::from_secs(9));
        assert!(restarts.after_at(&named, start).unwrap() >= Duration::from_secs(9));
    }
}
