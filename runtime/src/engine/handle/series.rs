//! Series of failed pulls or deliveries of a connector, and the numbers of their retries.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tremor_pdk::Error;

/// Time for which a retried pull has to be pending before its series counts as ended. A pull that waits for new events
/// gives no other sign that the peer is available again.
const PENDING: Duration = Duration::from_mins(1);

/// Upper bound of a wait in the calculation of a series' end, because a time that is too far away cannot be
/// represented.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// An operation of a connector that is retried after it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retried {
    Connect,
    Pull,
    Deliver,
}

impl Retried {
    /// Returns the name in the API and in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Pull => "pull",
            Self::Deliver => "deliver",
        }
    }
}

/// Number of retries, by the name of the operation and by the kind of the error.
pub type RetryCounts = BTreeMap<(&'static str, &'static str), u64>;

/// The running series of a connector, and its retries so far.
#[derive(Debug, Default)]
pub(super) struct Series {
    /// Start of the series of failed pulls, and the time at which the series ends unless another pull fails.
    pulls: Option<(Instant, Instant)>,
    /// `true` if the source was idle after the last failed pull.
    has_idled: bool,
    /// Start of the series of failed deliveries.
    deliveries: Option<Instant>,
    pub(super) counts: RetryCounts,
}

impl Series {
    /// Counts a retry that follows an error at `now` after `wait`, and begins a series if there is none. Attempts to
    /// connect have no series, because the state of the connector shows that it connects.
    pub(super) fn retry(&mut self, what: Retried, error: &Error, wait: Duration, now: Instant) {
        *self.counts.entry((what.as_str(), error.kind().as_str())).or_default() += 1;
        match what {
            Retried::Connect => {}
            Retried::Pull => {
                let since = self.pulls(now).unwrap_or(now);
                self.pulls = Some((since, now + wait.min(LONGEST) + PENDING));
                self.has_idled = false;
            }
            Retried::Deliver => _ = self.deliveries.get_or_insert(now),
        }
    }

    /// Records at `now` that the source reads nothing for `wait` after a failed pull. A source that polls its peer is
    /// idle between two failed polls, so the series lasts until the next poll. Returns whether the series still runs.
    pub(super) fn idle(&mut self, now: Instant, wait: Duration) -> bool {
        let Some(since) = self.pulls(now) else { return false };
        if !std::mem::replace(&mut self.has_idled, true) {
            self.pulls = Some((since, now + wait.min(LONGEST) + PENDING));
        }
        true
    }

    /// Ends a series.
    pub(super) fn end(&mut self, what: Retried) {
        match what {
            Retried::Connect => {}
            Retried::Pull => self.pulls = None,
            Retried::Deliver => self.deliveries = None,
        }
    }

    /// Returns the start of the series of failed deliveries, if one runs.
    pub(super) fn deliveries(&self) -> Option<Instant> {
        self.deliveries
    }

    /// Returns the start of the earliest series that runs at `now`.
    pub(super) fn earliest(&self, now: Instant) -> Option<Instant> {
        self.pulls(now).into_iter().chain(self.deliveries).min()
    }

    fn pulls(&self, now: Instant) -> Option<Instant> {
        self.pulls.filter(|(_, end)| now < *end).map(|(since, _)| since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tremor_pdk::Error;

    use super::{PENDING, Retried, Series};

    #[test]
    fn pull_that_is_pending_for_long_ends_its_series() {
        let (mut series, error) = (Series::default(), Error::timeout("no answer"));
        let wait = Duration::from_secs(30);
        let since = Instant::now();
        series.retry(Retried::Pull, &error, wait, since);
        let lasts = wait + PENDING;
        let last = since + lasts.saturating_sub(Duration::from_nanos(1));
        assert_eq!(series.earliest(last), Some(since));
        assert_eq!(series.earliest(since + lasts), None);
        assert_eq!(series.counts.get(&("pull", "timeout")), Some(&1));
    }

    #[test]
    fn series_lasts_until_the_poll_after_the_idle_time() {
        let (mut series, error) = (Series::default(), Error::timeout("no answer"));
        let interval = Duration::from_mins(5);
        let since = Instant::now();
        series.retry(Retried::Pull, &error, Duration::ZERO, since);
        assert!(series.idle(since, interval));
        assert_eq!(series.earliest(since + interval), Some(since));
        // If a source is idle several times in a row, its pulls do not fail.
        assert!(series.idle(since + interval, interval));
        assert!(!series.idle(since + interval + PENDING, interval));
        assert_eq!(series.earliest(since + interval + PENDING), None);
    }

    #[test]
    fn later_failure_keeps_the_start_of_its_series() {
        let (mut series, error) = (Series::default(), Error::full("quota"));
        let (since, now) = (Instant::now(), Instant::now() + PENDING / 2);
        for what in [Retried::Pull, Retried::Deliver] {
            series.retry(what, &error, Duration::ZERO, since);
            series.retry(what, &error, Duration::MAX, now);
            assert_eq!(series.earliest(now), Some(since));
            series.end(what);
            assert_eq!(series.earliest(now), None);
        }
        series.retry(Retried::Connect, &error, Duration::ZERO, now);
        assert_eq!(series.earliest(now), None);
        assert_eq!(series.counts.values().sum::<u64>(), 5);
    }
}
