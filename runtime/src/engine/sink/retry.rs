//! Retries of deliveries that the peer does not accept at the moment, for example because it is full or slow.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tremor_pdk::Error;

use crate::clock::Clock;
use crate::engine::{
    logging::notices::Notices,
    retry::backoff::{Attempts, Policy},
    sink::pending::{Pending, State},
};

/// Maximum wait before a delivery is retried, unless the flow sets another one.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The retries of one sink.
pub(crate) struct Retries {
    policy: Policy,
    /// Failed attempts to flush or close the sink.
    drains: Attempts,
    /// Time at which the next attempt to flush or close the sink is due. `None` if none is scheduled.
    next: Option<Instant>,
    /// Start of the current series of failures. `None` if no series runs.
    stuck: Option<Instant>,
    /// `true` if all failures of the current series are failures of `on_tick`.
    is_stuck_by_tick: bool,
    notices: Arc<Notices>,
    clock: Clock,
}

impl Retries {
    pub(crate) fn new(policy: Policy, notices: Arc<Notices>, clock: Clock) -> Self {
        let (next, stuck, is_stuck_by_tick) = (None, None, false);
        let drains = Attempts::new(policy);
        Self { policy, drains, next, stuck, is_stuck_by_tick, notices, clock }
    }

    /// Exchanges the rules for others, and ends the current series of failures.
    pub(crate) fn exchange(&mut self, policy: &mut Policy) {
        std::mem::swap(&mut self.policy, policy);
        *self = Self::new(self.policy, self.notices.clone(), self.clock.clone());
    }

    /// Returns the time of the next attempt to flush or close the sink, if an attempt has failed.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Clears the time of the next attempt, because the time is reached or there is a new connection.
    pub(crate) fn try_now(&mut self) {
        self.next = None;
    }

    /// Ends the series of failures, because the peer answered. `has_taken` is `true` if the peer accepted any event.
    /// Returns whether a series was running.
    pub(crate) fn progress(&mut self, has_taken: bool) -> bool {
        self.drains.restart();
        let Some(since) = self.stuck.take() else { return false };
        self.is_stuck_by_tick = false;
        if self.notices.admits("delivering") {
            let (component, waited) = (self.notices.component(), self.clock.elapsed(since));
            if has_taken {
                tracing::info!(%component, ?waited, "delivers again");
            } else {
                tracing::warn!(%component, ?waited, "retries ended because the peer rejected the events");
            }
        }
        true
    }

    /// Ends the series because no delivery has an attempt left. Call this only while no delivery is waiting or in
    /// flight. Returns whether a series has ended. A series of failed ticks, flushes or closes continues.
    pub(crate) fn give_up(&mut self) -> bool {
        if self.is_stuck_by_tick || self.next.is_some() || self.drains.failed() > 0 {
            return false;
        }
        let Some(since) = self.stuck.take() else { return false };
        if self.notices.admits("gave up") {
            let (component, waited) = (self.notices.component(), self.clock.elapsed(since));
            tracing::warn!(%component, ?waited, "retries ended because no attempt was left");
        }
        true
    }

    /// Schedules another attempt of a delivery that the peer did not accept.
    ///
    /// # Errors
    /// Returns `error` with the number of attempts if no attempt is left.
    pub(crate) fn again(&mut self, pending: &mut Pending, error: &Error) -> Result<(), Error> {
        let policy = self.policy;
        let attempts = pending.attempts.get_or_insert_with(|| Attempts::new(policy).into());
        let due = self.clock.now() + wait(attempts, error, &self.notices)?;
        pending.state = State::Returned { due: Some(due) };
        self.stuck_by(error);
        self.is_stuck_by_tick = false;
        Ok(())
    }

    /// Returns whether a flush or close has failed in the current series, because the sink could not send the events
    /// that it buffers.
    pub(crate) fn has_waited_to_drain(&self) -> bool {
        self.drains.has_waited()
    }

    /// Schedules another attempt to flush or close the sink, because the peer did not accept the buffered events.
    ///
    /// # Errors
    /// Returns `error` with the number of attempts if no attempt is left.
    pub(crate) fn drain_again(&mut self, error: &Error) -> Result<(), Error> {
        self.next = Some(self.clock.now() + wait(&mut self.drains, error, &self.notices)?);
        self.stuck_by(error);
        self.is_stuck_by_tick = false;
        Ok(())
    }

    /// Records that `on_tick` of the sink could not send the events that the sink buffers.
    pub(crate) fn tick_failed(&mut self, error: &Error) {
        self.is_stuck_by_tick |= self.stuck.is_none();
        self.stuck_by(error);
    }

    /// Returns whether the current series consists of failed ticks only.
    pub(crate) fn is_stuck_by_tick(&self) -> bool {
        self.is_stuck_by_tick
    }

    /// Begins a series of failures, unless one runs, and logs its first error.
    fn stuck_by(&mut self, error: &Error) {
        if self.stuck.is_none() && self.notices.admits("waiting") {
            let component = self.notices.component();
            tracing::warn!(%component, %error, "the peer accepts no events at the moment; deliveries wait");
        }
        self.stuck.get_or_insert_with(|| self.clock.now());
    }
}

/// Counts a failed attempt. Returns the wait before the next attempt.
///
/// # Errors
/// Returns `error` with the number of attempts if no attempt is left.
fn wait(attempts: &mut Attempts, error: &Error, notices: &Notices) -> Result<Duration, Error> {
    if !attempts.fail_with(error) {
        let error = error.clone().context(format_args!("not delivered after {attempts}"));
        attempts.restart();
        return Err(error);
    }
    let (attempt, wait) = (attempts.failed(), attempts.wait_after(error));
    tracing::debug!(component = %notices.component(), %error, attempt, ?wait, "not delivered");
    Ok(wait)
}

#[cfg(test)]
mod tests {
    use super::{Arc, Clock, Duration, Error, Notices, Policy, Retries};

    #[test]
    fn delay_that_the_peer_asks_for_is_the_minimum_wait() {
        let policy = Policy { attempts: None, first: Duration::ZERO, max: Duration::ZERO };
        let clock = Clock::simulated(0);
        let notices = Notices::new("sink".into(), Arc::default(), clock.clone());
        let mut retries = Retries::new(policy, notices.into(), clock.clone());
        let hour = Duration::from_hours(1);
        retries.drain_again(&Error::full("429").retry_after(hour)).unwrap();
        assert_eq!(retries.next(), Some(clock.now() + hour));
        retries.drain_again(&Error::full("429")).unwrap();
        assert_eq!(retries.next(), Some(clock.now()), "this error contains no delay");
    }
}
