//! Calls of a sink without a batch: `on_tick`, `flush` and `close`.

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use tremor_pdk::ErrorPolicy;

use crate::clock::Clock;
use crate::dynamic::{BoxFuture, DynSink};
use crate::engine::{
    control::interrupt::Cause,
    handle::{connection::End, series::Retried},
    sink::{Session, SinkSide},
};

/// Time after which a sink that stops no source counts as down: if it has deliveries and the peer accepts none, or if a
/// call takes this long, during which the sink takes nothing from its queue.
const SILENCE: Duration = Duration::from_secs(10);

impl Session<'_> {
    /// Returns the result of a call of the sink. While the call waits and the sink is down, the tasks that feed the
    /// sink can give up waiting deliveries and what is in its queue.
    ///
    /// # Errors
    /// Returns the cause if the session is interrupted before the call has completed.
    async fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn DynSink) -> BoxFuture<'_, T>,
    ) -> Result<T, Cause> {
        let clock = self.side.control.clock();
        let may_be_silent = !self.side.when_full.blocks() && !self.side.outage.is_down();
        let mut silent_at =
            self.silent_at().or_else(|| may_be_silent.then(|| clock.after(SILENCE)));
        let Self { side, sink, interrupt, alarm, .. } = self;
        let mut call = call(&mut **sink);
        let result = poll_fn(|context| {
            side.backlog.take_back();
            if let Poll::Ready(result) = call.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            if let Poll::Ready(cause) = interrupt.poll(context) {
                return Poll::Ready(Err(cause));
            }
            if alarm.poll_earliest(context, [(silent_at, ())]).is_ready() {
                silent_at = None;
                side.outage.begin();
            }
            side.set_aside();
            Poll::Pending
        })
        .await;
        if may_be_silent && self.side.silent_since.is_none() {
            // The sink was down only because of this call.
            self.side.outage.end();
        }
        result
    }

    /// Records whether the sink should answer a delivery. A sink that gathers deliveries answers only after a flush.
    pub(super) fn update_silence(&mut self, now: Instant) {
        let side = &mut *self.side;
        if side.when_full.blocks()
            || side.backlog.slots.is_empty()
            || (self.demand.gathers && !self.is_flushed)
        {
            side.silent_since = None;
        } else {
            side.silent_since.get_or_insert(now);
        }
    }

    /// Returns the time at which the sink counts as down because it does not answer.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let since = self.side.silent_since.filter(|_| !self.side.outage.is_down());
        since.map(|since| since + SILENCE)
    }

    /// Flushes the sink, so that it answers the deliveries in flight.
    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.is_flushed = true;
        self.update_silence(self.side.control.clock().now());
        match self.call(|sink| sink.flush()).await {
            Err(_) => Err(End::Interrupted),
            Ok(Err(error)) if error.policy() == ErrorPolicy::RETRY => {
                self.is_flushed = false;
                self.side.retries.drain_again(&error).map_err(End::of)?;
                if !self.side.when_full.blocks() {
                    self.side.outage.begin();
                }
                self.side.handle.retry(Retried::Deliver, &error, Duration::ZERO);
                Ok(())
            }
            Ok(result) => result.map_err(End::of),
        }
    }

    /// Closes the sink, because no event follows. Returns `false` if the sink still buffers events, so that it has to
    /// be closed again after a wait.
    ///
    /// Does not begin if the flow was stopped or the connection was lost. A stop makes other components drop their
    /// senders, so that queues end; without this check, it would depend on the order in which tasks run whether the
    /// sink counts as one that did not close in time.
    pub(super) async fn close(&mut self) -> Result<bool, End> {
        if self.interrupt.now().is_some() {
            return Err(End::Interrupted);
        }
        self.side.undrained = true;
        match self.interrupt.or(self.sink.close()).await {
            Err(_) => Err(End::Interrupted),
            Ok(Ok(())) => {
                self.side.undrained = false;
                // If an earlier attempt to close the sink failed, the sink has now sent its buffered events. If another
                // series of retries is still recorded, it has ended without a delivery, because no attempt was left.
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

    /// Calls `on_tick` of the sink and schedules the next tick.
    pub(super) async fn tick(&mut self) -> Result<(), End> {
        self.tick = next_tick(self.side.tick, self.side.control.clock(), Duration::ZERO);
        match self.call(|sink| sink.on_tick()).await {
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
    /// Returns whether the sink should be flushed, because no further delivery can start before a delivery in flight is
    /// answered. `gathers` is `true` if the sink collects deliveries and answers them only when it is flushed.
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

/// Returns the time of the first tick of a sink that is later than `after` from now. The time between two ticks is
/// `every`. The ticks of all sinks of a process are aligned, because waking the process separately for each sink would
/// cost more than the work of the ticks.
pub(super) fn next_tick(every: Duration, clock: &Clock, after: Duration) -> Instant {
    let after = clock.now() + after;
    let since = after.saturating_duration_since(clock.instant_of(0)).as_nanos();
    let phase = since.checked_rem(every.as_nanos()).unwrap_or_default();
    after + every.saturating_sub(Duration::from_nanos(phase.try_into().unwrap_or_default()))
}
