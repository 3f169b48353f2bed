//! A slowdown for sources that repeatedly return from a pull without an event and without waiting. Otherwise such a
//! source would keep a processor busy without any result.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use tremor_pdk::Error;

use crate::engine::retry::backoff::{Attempts, Policy};

/// Number of consecutive pulls without an event after which the next pull is delayed. A few such pulls are normal: a
/// source may skip invalid messages, or be woken although no data has arrived.
const FREE: u64 = 16;

/// Waits before pulls, after [`FREE`] consecutive pulls without an event.
const BACKOFF: Policy =
    Policy { attempts: None, first: Duration::from_millis(1), max: Duration::from_secs(1) };

/// Minimum duration of a pull that counts as a long poll. A long poll without an event does not belong to the series.
const LONG_POLL: Duration = Duration::from_millis(5);

/// Minimum time between two log lines about failed pulls.
const APART: Duration = Duration::from_secs(1);

/// The current series of pulls that returned immediately and without an event.
pub(super) struct Futile {
    pulls: Attempts,
    /// Time of the last log line about a failed pull, and the number of failed pulls since.
    failed: (Option<Instant>, usize),
}

impl Default for Futile {
    fn default() -> Self {
        Self { pulls: Attempts::new(BACKOFF), failed: (None, 0) }
    }
}

impl Futile {
    /// Ends the series, because the source read something. Returns `true` if there was a series.
    pub(super) fn end(&mut self, component: &str) -> bool {
        let pulls = self.pulls.failed();
        if pulls > FREE {
            tracing::info!(component, pulls, "the source reads events again");
        }
        self.pulls.restart();
        pulls > 0
    }

    /// Adds a pull that took `took` to the series, unless it was a long poll. Returns the wait before the next pull if
    /// the source has to be slowed down.
    pub(super) fn add(
        &mut self,
        component: &str,
        answer: impl Display,
        took: Duration,
    ) -> Option<Duration> {
        if took >= LONG_POLL {
            return None;
        }
        self.pulls.fail();
        let pulls = self.pulls.failed();
        if pulls == FREE + 1 {
            tracing::warn!(
                component,
                pulls,
                %answer,
                "the source repeatedly returned without an event and without waiting: its plugin has to wait for an \
                 event in `pull`, or return `Pull::Idle` with a time; its pulls are slowed down until it reads an event"
            );
        }
        (pulls > FREE).then(|| self.pulls.wait())
    }

    /// Adds a pull that failed at `now`, and logs failed pulls at most once a second. Returns the same as
    /// [`Futile::add`].
    pub(super) fn fail(
        &mut self,
        component: &str,
        error: &Error,
        now: Instant,
    ) -> Option<Duration> {
        let (logged, pulls) = &mut self.failed;
        *pulls += 1;
        if logged.is_none_or(|logged| now.saturating_duration_since(logged) >= APART) {
            tracing::warn!(component, %error, pulls, "pulls failed; the source is pulled again");
            (*logged, *pulls) = (Some(now), 0);
        }
        self.add(component, error, Duration::ZERO).map(|wait| wait.max(error.delay()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FREE, Futile, LONG_POLL};

    #[test]
    fn long_polls_without_an_event_are_not_slowed() {
        let mut futile = Futile::default();
        for _ in 0..10 * FREE {
            assert_eq!(futile.add("input", "nothing", LONG_POLL), None);
        }
        assert!(!futile.end("input"), "no series");
    }

    #[test]
    fn series_of_futile_pulls_is_slowed_until_an_event() {
        let mut futile = Futile::default();
        for _ in 0..2 {
            let add = |futile: &mut Futile| futile.add("input", "nothing", Duration::ZERO);
            assert!((0..FREE).all(|_| add(&mut futile).is_none()));
            let waits: Vec<_> = (0..1_000).map_while(|_| add(&mut futile)).collect();
            assert_eq!(waits.len(), 1_000);
            assert!(waits[0] <= Duration::from_millis(1));
            assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(1)));
            // Waits are random. The probability that all of a thousand waits are at most 500 ms is about 2^-1000.
            assert!(waits.iter().any(|wait| *wait > Duration::from_millis(500)));
            assert!(futile.end("input"));
            assert!(!futile.end("input"));
        }
    }
}
