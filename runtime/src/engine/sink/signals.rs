//! Calls of a sink that deliver nothing: the time, a flush, and the end.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use tremor_pdk::ErrorPolicy;

use crate::engine::{
    handle::{connection::End, series::Retried},
    sink::{Session, SinkSide},
};

impl Session<'_> {
    /// Asks the sink to answer the deliveries in flight.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.is_flushed = true;
        match self.interrupt.or(self.sink.flush()).await {
            Err(_) => Err(End::Interrupted),
            Ok(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                self.is_flushed = false;
                self.side.retries.drain_again(&error).map_err(End::of)?;
                self.side.handle.retry(Retried::Deliver, &error, Duration::ZERO);
                Ok(())
            }
            Ok(result) => result.map_err(End::of),
        }
    }

    /// Closes the sink, because no event follows. Returns whether it has sent everything that it buffered.
    pub(super) async fn close(&mut self) -> Result<bool, End> {
        self.side.undrained = true;
        match self.interrupt.or(self.sink.close()).await {
            Err(_) => Err(End::Interrupted),
            Ok(Ok(())) => {
                self.side.undrained = false;
                // A sink that gave up its last delivery has nothing left to send, and that is not a delivery.
                if self.side.retries.has_waited_to_drain() {
                    self.side.progress(true);
                } else if self.side.retries.give_up() {
                    self.side.handle.recover(Retried::Deliver);
                }
                self.side.outage.end();
                Ok(true)
            }
            Ok(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                self.side.retries.drain_again(&error).map_err(End::of)?;
                self.side.handle.retry(Retried::Deliver, &error, Duration::ZERO);
                Ok(false)
            }
            Ok(Err(error)) => Err(End::of(error)),
        }
    }

    pub(super) async fn tick(&mut self) -> Result<(), End> {
        self.tick = next_tick(self.side.tick, Instant::now());
        match self.interrupt.or(self.sink.on_tick()).await {
            Err(_) => Err(End::Interrupted),
            Ok(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                self.side.retries.tick_failed(&error);
                self.side.handle.retry(Retried::Deliver, &error, Duration::ZERO);
                Ok(())
            }
            Ok(result) => {
                if result.is_ok() && self.side.retries.is_stuck_by_tick() {
                    self.side.progress(true);
                }
                result.map_err(End::of)
            }
        }
    }
}

impl SinkSide {
    /// Returns whether no delivery follows before one of those in flight is answered.
    pub(super) fn is_flush_due(&self, gathers: bool, is_paused: bool) -> bool {
        if !gathers {
            return self.backlog.is_complete() && !self.backlog.has_waiting();
        }
        is_paused
            || self.backlog.is_complete()
            || !self.backlog.slots.has_free()
            || self.backlog.waits_for_order()
            || !self.control.memory().is_open()
    }
}

/// When a sink is told the time next, after this moment. All sinks of a process are told at once: a process that
/// wakes up for each of them costs more than what they do then.
pub(super) fn next_tick(every: Duration, after: Instant) -> Instant {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let since = after.saturating_duration_since(*ORIGIN).as_nanos();
    let phase = since.checked_rem(every.as_nanos()).unwrap_or_default();
    after + every.saturating_sub(Duration::from_nanos(phase.try_into().unwrap_or_default()))
}
