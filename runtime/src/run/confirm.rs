//! Reloads that have to be confirmed: until when, and which configuration returns otherwise.

use std::time::{Duration, Instant};

/// Origin of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A request.
    Request {
        /// Time within which the reload has to be confirmed. Without it, the request is itself a confirmation.
        confirm: Option<Duration>,
    },
    /// A change of a watched file. It confirms nothing, because a program may have written the file.
    Watch,
}

/// The confirmation that a run waits for. `C` is a flow of the configuration.
pub(super) struct Confirmation<C>(Option<Pending<C>>);

struct Pending<C> {
    until: Instant,
    within: Duration,
    /// The last confirmed configuration.
    confirmed: Vec<C>,
}

/// A confirmation that did not arrive in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expired<C> {
    /// Time within which the reload should have been confirmed.
    pub(super) within: Duration,
    /// Configuration that has to return.
    pub(super) confirmed: Vec<C>,
}

impl<C> Confirmation<C> {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Records a reload after which the flows are those of the files. Call this for no other reload.
    ///
    /// `before` is the configuration before the reload if the reload has changed it. While a reload waits for its
    /// confirmation, further ones do not change the configuration that returns.
    pub(super) fn reloaded(&mut self, origin: Origin, before: Option<Vec<C>>, now: Instant) {
        match origin {
            Origin::Watch => {}
            Origin::Request { confirm: None } => self.0 = None,
            Origin::Request { confirm: Some(within) } => {
                let confirmed = self.0.take().map(|pending| pending.confirmed).or(before);
                self.0 =
                    confirmed.map(|confirmed| Pending { until: now + within, within, confirmed });
            }
        }
    }

    /// Confirms the configuration that runs. Returns whether it had to be confirmed.
    pub(super) fn keep(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Returns the time until which the configuration that runs has to be confirmed.
    pub(super) fn until(&self) -> Option<Instant> {
        self.0.as_ref().map(|pending| pending.until)
    }

    /// Returns the time until which the configuration that runs has to be confirmed, in seconds from `now`, rounded up.
    pub(super) fn seconds(&self, now: Instant) -> Option<u64> {
        let left = self.until()?.saturating_duration_since(now);
        Some(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// Ends the wait for a confirmation if its time is over.
    pub(super) fn expired(&mut self, now: Instant) -> Option<Expired<C>> {
        let pending = self.0.take_if(|pending| pending.until <= now)?;
        Some(Expired { within: pending.within, confirmed: pending.confirmed })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Confirmation, Expired, Origin};

    const S: Duration = Duration::from_secs(1);

    fn with(seconds: u32) -> Origin {
        Origin::Request { confirm: Some(S * seconds) }
    }

    #[test]
    fn unconfirmed_change_expires_once_after_its_time() {
        let (mut confirmation, now) = (Confirmation::new(), Instant::now());
        confirmation.reloaded(with(60), Some(vec!["before"]), now);
        assert_eq!(confirmation.until(), Some(now + 60 * S));
        assert_eq!(confirmation.seconds(now + S / 2), Some(60));
        assert_eq!(confirmation.expired(now + 59 * S), None);
        let expired = Expired { within: 60 * S, confirmed: vec!["before"] };
        assert_eq!(confirmation.expired(now + 60 * S), Some(expired));
        assert_eq!((confirmation.expired(now + 60 * S), confirmation.until()), (None, None));
    }

    #[test]
    fn confirmed_change_does_not_expire() {
        let (mut confirmation, now) = (Confirmation::new(), Instant::now());
        assert!(!confirmation.keep());
        confirmation.reloaded(with(1), Some(vec!["before"]), now);
        assert!(confirmation.keep() && !confirmation.keep());
        assert_eq!(confirmation.expired(now + 2 * S), None);
    }

    #[test]
    fn later_reloads_keep_the_configuration_that_returns() {
        let (mut confirmation, now) = (Confirmation::new(), Instant::now());
        confirmation.reloaded(with(10), Some(vec!["first"]), now);
        confirmation.reloaded(with(10), Some(vec!["second"]), now + 5 * S);
        // A reload that changes nothing extends the time as well.
        confirmation.reloaded(with(10), None, now + 6 * S);
        assert_eq!(confirmation.expired(now + 15 * S), None);
        assert_eq!(confirmation.expired(now + 16 * S).unwrap().confirmed, ["first"]);
    }

    #[test]
    fn request_without_time_confirms_and_watched_files_do_not() {
        let (mut confirmation, now) = (Confirmation::new(), Instant::now());
        confirmation.reloaded(with(10), Some(vec!["first"]), now);
        confirmation.reloaded(Origin::Watch, Some(vec!["second"]), now + 5 * S);
        assert_eq!(confirmation.until(), Some(now + 10 * S));
        confirmation.reloaded(Origin::Request { confirm: None }, Some(vec!["third"]), now + 6 * S);
        assert_eq!(confirmation.expired(now + 20 * S), None);
    }

    #[test]
    fn reload_that_changes_nothing_needs_no_confirmation() {
        let mut confirmation = Confirmation::<&str>::new();
        confirmation.reloaded(with(10), None, Instant::now());
        assert_eq!(confirmation.until(), None);
    }
}
