//! Limits and waits of retries.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use tremor_pdk::{Error, ErrorKind};

use crate::flow;

/// Rules for retrying an operation that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Maximum number of consecutive retries. `None` stands for no limit.
    pub(crate) attempts: Option<u64>,
    /// Upper bound of the first wait.
    pub(crate) first: Duration,
    /// Upper bound of all waits.
    pub(crate) max: Duration,
}

impl Policy {
    /// Creates the policy from the keys of a flow. By default the number of attempts is not limited, the bound of the
    /// first wait is 100 ms, and `max` is the bound of all waits.
    pub(crate) fn of(set: flow::Retry, max: Duration) -> Self {
        let first = set.backoff.unwrap_or(Duration::from_millis(100));
        Self { attempts: set.attempts, first, max: set.max_backoff.unwrap_or(max.max(first)) }
    }
}

/// A series of consecutive failed attempts.
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

    /// Returns the number of consecutive failed attempts.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns whether a wait was determined in this series, after a failed or a deferred attempt.
    pub(crate) fn has_waited(&self) -> bool {
        !self.backoff.is_first()
    }

    /// Counts a failed attempt. Returns whether another attempt may follow.
    pub(crate) fn fail(&mut self) -> bool {
        self.failed += 1;
        self.policy.attempts.is_none_or(|attempts| self.failed <= attempts)
    }

    /// Counts an attempt that failed with `error`, unless the system lacked resources or the attempt was deferred.
    /// Returns whether another attempt may follow.
    pub(crate) fn fail_with(&mut self, error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::SHORTAGE | ErrorKind::DEFERRED) || self.fail()
    }

    /// Returns the random wait before the next attempt.
    pub(crate) fn wait(&mut self) -> Duration {
        self.backoff.next()
    }

    /// Returns the wait before the attempt that follows `error`, at least the delay that the error contains. If the
    /// attempt was deferred with a delay, the wait is this delay, and the bound of later waits does not double.
    pub(crate) fn wait_after(&mut self, error: &Error) -> Duration {
        if error.kind() == ErrorKind::DEFERRED && !error.delay().is_zero() {
            self.backoff.waits += 1;
            return error.delay();
        }
        self.wait().max(error.delay())
    }

    /// Ends the series, because an attempt has succeeded or counts as successful.
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

/// Exponential backoff with full jitter.
///
/// The bound doubles with each wait up to a maximum. Each wait is a random duration up to the bound, so that connectors
/// that lost the same peer at the same time do not all reconnect at the same time.
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

/// A budget that allows an action at most `most` times within a sliding window.
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

    /// Uses the budget once at `now`. Returns `false` if the budget is exhausted.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let is_over = |first: &mut Instant| now.saturating_duration_since(*first) > self.within;
        while self.taken.pop_front_if(is_over).is_some() {}
        let allowed = (self.taken.len() as u64) < self.most;
        if allowed {
            self.taken.push_back(now);
        }
        allowed
    }

    /// Takes back the last `uses` uses.
    pub(crate) fn give_back(&mut self, uses: u64) {
        let left = self.taken.len().saturating_sub(usize::try_from(uses).unwrap_or(usize::MAX));
        self.taken.truncate(left);
    }

    /// Returns the time at which the oldest use leaves the window, or `None` if there was no use. If the budget is
    /// exhausted, it can be used again from that time on.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        self.taken.front().map(|first| *first + self.within)
    }
}

/// Rules for restarting a failed connector.
#[derive(Debug)]
pub(crate) struct Restarts {
    budget: Budget,
    policy: Policy,
    backoff: Backoff,
}

impl Restarts {
    /// Creates the rules from the keys of a flow. The default is 5 restarts within one minute. `policy` contains the
    /// bounds of the waits.
    pub(crate) fn of(set: flow::Restart, policy: Policy) -> Self {
        let within = set.within.unwrap_or(Duration::from_mins(1));
        let budget = Budget::new(set.attempts.unwrap_or(5), within);
        Self { budget, policy, backoff: Backoff::new(policy) }
    }

    /// Uses up a restart after `error`, which occurred at `now`. Returns the wait before the restart. A shortage of the
    /// system's resources does not use up a restart, so that restarts are left when the shortage has passed.
    ///
    /// # Errors
    /// Returns `error`, with the number of restarts as context, if no restart is left.
    pub(crate) fn after(&mut self, error: &Error, now: Instant) -> Result<Duration, Error> {
        // A shortage is not caused by the component, and a new instance cannot end it.
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
    fn waits_are_random_below_a_bound_that_doubles() {
        let mut below = [false; 4];
        // The waits are random. The probability that none of a hundred waits is in the lower half of its bound is
        // 2^-100.
        for _ in 0..100 {
            let mut attempts = attempts(None);
            for (bound, below) in [100, 200, 300, 300].into_iter().zip(&mut below) {
                let wait = attempts.wait();
                assert!(wait <= bound * MS, "{wait:?} of {bound} ms");
                *below |= wait < bound * MS / 2;
            }
        }
        assert_eq!(below, [true; 4], "full jitter includes short waits");
    }

    #[test]
    fn attempts_are_limited_and_reset_by_a_success() {
        assert!(!attempts(Some(0)).fail());
        let mut two = attempts(Some(2));
        for _ in 0..2 {
            assert_eq!([two.fail(), two.fail(), two.fail()], [true, true, false]);
            assert_eq!(two.failed(), 3);
            (0..10).for_each(|_| _ = two.wait());
            two.restart();
            assert!(two.wait() <= 100 * MS, "the backoff is reset as well");
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
    fn budget_counts_only_uses_within_its_window() {
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
    fn error_after_the_last_restart_names_number_of_restarts() {
        let (error, start) = (Error::internal("broken"), Instant::now());
        for (mut restarts, most, says) in [
            (restarts(None, None), 5, "failed again after 5 restarts within 60s: broken"),
            (restarts(Some(1), Some(9 * MS)), 1, "failed again after a restart within 9ms: broken"),
            (restarts(Some(0), None), 0, "broken"),
        ] {
            assert!((0..most).all(|_| restarts.after(&error, start).is_ok()));
            let last = restarts.after(&error, start).unwrap_err().to_string();
            assert!(last.ends_with(says), "{last}");
        }
    }

    #[test]
    fn shortages_take_no_restart_from_the_budget() {
        let (error, start) = (Error::internal("broken"), Instant::now());
        let mut restarts = restarts(Some(1), None);
        for shortage in [Error::shortage("too many open files"), Error::full("disk")] {
            assert!((0..100).all(|_| restarts.after(&shortage, start).is_ok()));
        }
        assert!(restarts.after(&error, start).is_ok());
        assert!(restarts.after(&error, start).is_err());
    }

    /// A wait is at least as long as the delay that the error contains.
    #[test]
    fn restart_waits_grow_within_a_window() {
        let (error, start) = (Error::internal("broken"), Instant::now());
        let mut restarts = restarts(None, None);
        for window in 0..100 {
            let now = start + window * Duration::from_secs(61);
            for bound in [100, 200, 300] {
                assert!(restarts.after(&error, now).unwrap() <= bound * MS);
            }
        }
        let named = error.retry_after(Duration::from_secs(9));
        assert!(restarts.after(&named, start).unwrap() >= Duration::from_secs(9));
    }
}
