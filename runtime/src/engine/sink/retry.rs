//! Deliveries that the peer cannot take now, because it is full or slow: when they are tried again,
//! and for how long.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_pdk::Error;

use crate::engine::{
    logging::notices::Notices,
    retry::backoff::{Attempts, Policy},
    sink::pending::Pending,
};

/// The longest wait before another delivery, unless the flow says otherwise.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The deliveries of one sink that have to be tried again.
pub(crate) struct Retries {
    policy: Policy,
    /// To send what the sink holds back, at the end.
    drains: Attempts,
    /// When it is to do so again.
    next: Option<Instant>,
    /// Since when nothing goes through.
    stuck: Option<Instant>,
    /// `true` if only ticks of the sink have failed since then, and no delivery.
    is_stuck_by_tick: bool,
    notices: Arc<Notices>,
}

impl Retries {
    pub(crate) fn new(policy: Policy, notices: Arc<Notices>) -> Self {
        let (next, stuck, is_stuck_by_tick) = (None, None, false);
        Self { policy, drains: Attempts::new(policy), next, stuck, is_stuck_by_tick, notices }
    }

    /// When the sink is to send again what it holds back.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The time has come, or there is another connection, on which to try at once.
    pub(crate) fn try_now(&mut self) {
        self.next = None;
    }

    /// Notes that the peer took events, or that it answered without taking any: `has_taken`. Returns whether
    /// deliveries waited before.
    pub(crate) fn progress(&mut self, has_taken: bool) -> bool {
        self.drains.restart();
        let Some(since) = self.stuck.take() else { return false };
        self.is_stuck_by_tick = false;
        if self.notices.admits("delivering") {
            let (component, waited) = (self.notices.component(), since.elapsed());
            if has_taken {
                tracing::info!(%component, ?waited, "delivers again");
            } else {
                tracing::warn!(%component, ?waited, "retries ended because the peer rejected the events");
            }
        }
        true
    }

    /// Ends a series whose deliveries were given up, if one runs. Call this only if no delivery is in flight or
    /// waits. Returns whether a series has ended.
    pub(crate) fn give_up(&mut self) -> bool {
        if self.is_stuck_by_tick || self.next.is_some() || self.drains.failed() > 0 {
            return false;
        }
        let Some(since) = self.stuck.take() else { return false };
        if self.notices.admits("gave up") {
            let (component, waited) = (self.notices.component(), since.elapsed());
            tracing::warn!(%component, ?waited, "retries ended because no attempt was left");
        }
        true
    }

    /// The peer cannot take this batch. It gets it again after a while.
    ///
    /// # Errors
    /// It has had all its attempts: the batch cannot be delivered, for this reason.
    pub(crate) fn again(&mut self, pending: &mut Pending, error: &Error) -> Result<(), Error> {
        let policy = self.policy;
        let attempts = pending.attempts.get_or_insert_with(|| Attempts::new(policy).into());
        let due = wait(attempts, error, &self.notices)?;
        pending.retry_at(due);
        self.stuck_by(error);
        self.is_stuck_by_tick = false;
        Ok(())
    }

    /// Returns whether the sink could not yet send what it holds back, after it was told that nothing follows.
    pub(crate) fn has_waited_to_drain(&self) -> bool {
        self.drains.has_waited()
    }

    /// The peer cannot take what the sink holds back. It gets it again after a while.
    ///
    /// # Errors
    /// As [`Retries::again`].
    pub(crate) fn drain_again(&mut self, error: &Error) -> Result<(), Error> {
        self.next = Some(wait(&mut self.drains, error, &self.notices)?);
        self.stuck_by(error);
        self.is_stuck_by_tick = false;
        Ok(())
    }

    /// Notes that the sink could not send what it buffers when it was notified of the time.
    pub(crate) fn tick_failed(&mut self, error: &Error) {
        self.is_stuck_by_tick |= self.stuck.is_none();
        self.stuck_by(error);
    }

    /// Returns whether a series runs in which only ticks have failed.
    pub(crate) fn is_stuck_by_tick(&self) -> bool {
        self.is_stuck_by_tick
    }

    /// Logs the first error of a series.
    fn stuck_by(&mut self, error: &Error) {
        if self.stuck.is_none() && self.notices.admits("waiting") {
            let component = self.notices.component();
            tracing::warn!(%component, %error, "the peer takes nothing now; deliveries wait");
        }
        self.stuck.get_or_insert_with(Instant::now);
    }
}

/// One attempt has failed: when the next one follows.
///
/// # Errors
/// There is none.
fn wait(attempts: &mut Attempts, error: &Error, notices: &Notices) -> Result<Instant, Error> {
    if !attempts.fail_with(error) {
        let error = error.clone().context(format_args!("not delivered after {attempts}"));
        attempts.restart();
        return Err(error);
    }
    let (attempt, wait) = (attempts.failed(), attempts.wait_after(error));
    tracing::debug!(component = %notices.component(), %error, attempt, ?wait, "not delivered");
    Ok(Instant::now() + wait)
}

#[cfg(test)]
mod tests {
    use super::{Arc, Duration, Error, Instant, Notices, Policy, Retries};

    #[test]
    fn a_time_that_the_peer_has_named_is_waited_for_at_least() {
        let policy = Policy { attempts: None, first: Duration::ZERO, max: Duration::ZERO };
        let mut retries = Retries::new(policy, Notices::new("sink".into(), Arc::default()).into());
        let before = Instant::now();
        let hour = Duration::from_hours(1);
        retries.drain_again(&Error::full("429").retry_after(hour)).unwrap();
        assert!(retries.next() >= Some(before + hour));
        retries.drain_again(&Error::full("429")).unwrap();
        assert!(retries.next() < Some(before + hour), "the peer has named none this time");
    }
}
