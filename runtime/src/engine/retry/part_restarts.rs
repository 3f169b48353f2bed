//! Restarts of parts: operators of a pipeline, codecs and processors of a connector. After a panic, a part gets another
//! instance.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use tremor_pdk::{Error, Result, lock};

use super::backoff::Budget;
use crate::watchdog::Calls;

/// Maximum number of restarts of a part within one minute without a successful call after them.
const RESTARTS: u64 = 3;
/// Maximum number of panics in a row if the events of a batch are passed one by one. The remaining events fail without a
/// call, because the part probably panics on each of them, and creating an instance may take long.
pub(crate) const PANICS_IN_A_ROW: usize = 8;
/// Shortest time between two log lines about restarts of a part.
const INTERVAL: Duration = Duration::from_secs(10);

/// Every instance works, or a call has succeeded since the last restart.
const WORKING: u8 = 0;
/// No call has succeeded since the last restart.
const UNPROVEN: u8 = 1;
/// The budget is exhausted, and the part is not called again, unless a restart is requested.
const EXHAUSTED: u8 = 2;

/// The restarts of all instances of a part.
#[derive(Debug)]
pub(crate) struct PartRestarts {
    state: AtomicU8,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    budget: Budget,
    /// Restarts since the last successful call. They use no budget once a call succeeds: the part works, and single
    /// events make it panic.
    unproven: u64,
    logged_at: Option<Instant>,
    /// Restarts since the last log line.
    unlogged: u64,
}

/// A part that has panicked.
#[derive(Clone, Copy)]
pub(crate) struct Part<'p> {
    /// Name of the connector or the pipeline.
    pub(crate) component: &'p str,
    /// Description of the part within the component, such as "codec `x`".
    pub(crate) label: &'p str,
    /// Records of the flow, one of which is added if the part is not called again.
    pub(crate) calls: &'p Calls,
    pub(crate) now: Instant,
}

fn budget() -> Budget {
    Budget::new(RESTARTS, Duration::from_mins(1))
}

impl Default for PartRestarts {
    fn default() -> Self {
        let counts = Counts { budget: budget(), unproven: 0, logged_at: None, unlogged: 0 };
        Self { state: AtomicU8::new(WORKING), counts: Mutex::new(counts) }
    }
}

impl PartRestarts {
    /// Checks that the part may still be called.
    ///
    /// # Errors
    /// Kind panicked, once the budget is exhausted.
    #[inline]
    pub(crate) fn check(&self, label: &str) -> Result<()> {
        if self.is_exhausted() { Err(exhausted(label)) } else { Ok(()) }
    }

    /// Returns whether the part is not called again.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == EXHAUSTED
    }

    /// Records that a call has succeeded, so that earlier restarts use no budget.
    #[inline]
    pub(crate) fn succeed(&self) {
        if self.state.load(Ordering::Relaxed) == UNPROVEN {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&self) {
        let counts = &mut *lock(&self.counts);
        counts.budget.give_back(std::mem::take(&mut counts.unproven));
        // The state stays exhausted if a panic of another instance has exhausted the budget meanwhile.
        let (from, to) = (UNPROVEN, WORKING);
        let _ = self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the instance that replaces one that has panicked with `error`. Returns `None` if the budget is
    /// exhausted, so that the part is not called again, or if the constructor fails.
    #[cold]
    pub(crate) fn restart<T>(
        self: &Arc<Self>,
        part: Part<'_>,
        error: &Error,
        make: impl FnOnce() -> Result<T>,
    ) -> Option<T> {
        if !self.count(part, error) {
            return None;
        }
        let instance = Self::replace(part, make)?;
        self.log(part, error);
        Some(instance)
    }

    /// Returns an instance that replaces one that has panicked on an event that was passed alone. This uses no budget,
    /// because the restart after the call for the whole batch was counted. Returns `None` if the constructor fails.
    #[cold]
    pub(crate) fn replace<T>(
        Part { component, label, .. }: Part<'_>,
        make: impl FnOnce() -> Result<T>,
    ) -> Option<T> {
        let failed = |error: &Error| {
            tracing::error!(component, %error, "{label} cannot be restarted");
        };
        make().inspect_err(failed).ok()
    }

    /// Counts a restart. Returns `false` if the budget is exhausted.
    fn count(self: &Arc<Self>, part: Part<'_>, error: &Error) -> bool {
        let Part { component, label, calls, now } = part;
        let counts = &mut *lock(&self.counts);
        if self.is_exhausted() {
            return false;
        }
        let is_allowed = counts.budget.take(now);
        if is_allowed {
            counts.unproven += 1;
            self.state.store(UNPROVEN, Ordering::Relaxed);
        } else {
            self.state.store(EXHAUSTED, Ordering::Relaxed);
            let remedy = "restart its connector or pipeline with the admin API, or the process with another plugin";
            tracing::error!(component, %error, "{label} has panicked too often, and is not called again; {remedy}");
            let revived = self.clone();
            calls.give_up(component, label, error, Box::new(move || revived.revive()));
        }
        is_allowed
    }

    /// Lets the part be called again, with a new budget.
    fn revive(&self) {
        let counts = &mut *lock(&self.counts);
        (counts.budget, counts.unproven) = (budget(), 0);
        self.state.store(WORKING, Ordering::Relaxed);
    }

    /// Logs a restart, unless the last line is less than [`INTERVAL`] ago.
    fn log(&self, part: Part<'_>, error: &Error) {
        let Part { component, label, now, .. } = part;
        let counts = &mut *lock(&self.counts);
        if counts.logged_at.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL) {
            counts.unlogged += 1;
            return;
        }
        counts.logged_at = Some(now);
        let others = std::mem::take(&mut counts.unlogged);
        tracing::warn!(component, %error, others, "{label} restarts");
    }
}

#[cold]
fn exhausted(label: &str) -> Error {
    Error::panicked(format_args!("{label} has panicked too often, and is not called again"))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tremor_pdk::Error;

    use super::{Part, PartRestarts};
    use crate::{clock::Clock, watchdog::Calls};

    /// Restarts a part `second` seconds after the start. Returns whether that was possible.
    fn restart(restarts: &Arc<PartRestarts>, calls: &Calls, clock: &Clock, second: u64) -> bool {
        let now = clock.now() + Duration::from_secs(second);
        let part = Part { component: "input", label: "codec `x`", calls, now };
        restarts.restart(part, &Error::panicked("oh"), || Ok(())).is_some()
    }

    #[test]
    fn fourth_restart_in_a_minute_without_success_is_the_end() {
        let (restarts, calls, clock) =
            (Arc::<PartRestarts>::default(), Calls::default(), Clock::simulated(0));
        assert!((0..3).all(|second| restart(&restarts, &calls, &clock, second)));
        restarts.check("codec `x`").unwrap();
        assert!(!restart(&restarts, &calls, &clock, 60));
        let error = restarts.check("codec `x`").unwrap_err().to_string();
        assert!(error.starts_with("codec `x` has panicked too often"), "{error}");
        // Neither a later success of another instance nor time changes that.
        restarts.succeed();
        assert!(!restart(&restarts, &calls, &clock, 600));
        let given_up = calls.given_up();
        assert_eq!(given_up.len(), 1);
        assert_eq!((&*given_up[0].component, &*given_up[0].part), ("input", "codec `x`"));
        calls.revive("output");
        assert!(restarts.check("codec `x`").is_err());
        calls.revive("input");
        restarts.check("codec `x`").unwrap();
        assert!(calls.given_up().is_empty());
        assert!((0..3).all(|_| restart(&restarts, &calls, &clock, 600)), "the budget is new");
        assert!(!restart(&restarts, &calls, &clock, 600));
    }

    #[test]
    fn restarts_followed_by_success_use_no_budget() {
        let (restarts, calls, clock) =
            (Arc::<PartRestarts>::default(), Calls::default(), Clock::simulated(0));
        for _ in 0..1_000 {
            assert!(restart(&restarts, &calls, &clock, 1) && restart(&restarts, &calls, &clock, 1));
            restarts.succeed();
        }
        assert!(calls.given_up().is_empty());
    }
}
