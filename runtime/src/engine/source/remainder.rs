//! Processes events that a source has already pulled, before the source waits and when it ends.
//!
//! A few bytes may expand to terabytes in preprocessors. Each round of the loops in this module therefore does a
//! bounded amount of work, then yields to other tasks and checks the conditions that may end the loop.

use std::time::Duration;

use tremor_pdk::{Batch, Error};

use super::{
    Session, Step,
    preprocessors::{Next, StreamEnd},
};
use crate::{
    engine::{
        control::{Phase, last_call::close_in_time},
        handle::connection::End,
        spin,
    },
    executor,
};

/// Maximum wait for queue capacity after the connection was lost. A sink that works handles a batch in less time.
const CAPACITY_WAIT: Duration = Duration::from_secs(1);

/// A condition that limits the number of rounds for events that were already pulled. A round outputs at most about
/// [`Batch::WEIGHT_AT_MOST`] bytes.
#[derive(Clone, Copy)]
enum Limit {
    /// The flow was stopped. The flow ends two seconds later, even if events are left.
    Stopped,
    /// The connection was lost. The next connection begins only after these rounds.
    Lost,
    /// The connection was lost and a queue is full. In this state, sending does not wait for capacity, because the next
    /// connection may have to empty the queue. The limit bounds the events that a lost connection adds to queues.
    Full,
}

impl Limit {
    /// Returns the maximum number of rounds. Only input that expands like a decompression bomb needs more rounds.
    const fn rounds(self) -> usize {
        match self {
            Self::Stopped | Self::Full => 8,
            Self::Lost => 64,
        }
    }
}

/// Number of rounds that were done under each [`Limit`].
#[derive(Default)]
struct Rounds([usize; 3]);

impl Rounds {
    /// Counts a round under `limit`. Returns whether the maximum number is exceeded.
    fn exceeds(&mut self, limit: Limit) -> bool {
        let rounds = &mut self.0[limit as usize];
        *rounds += 1;
        *rounds > limit.rounds()
    }

    /// Returns whether rounds were done under `limit`.
    fn has_begun(&self, limit: Limit) -> bool {
        self.0[limit as usize] > 0
    }
}

impl Session<'_> {
    /// Waits for `wait` before the next pull. Returns the end of the connection if the source has to end during the
    /// wait.
    pub(super) async fn idle(&mut self, wait: Duration) -> Result<Option<End>, Error> {
        self.process_remainder().await?;
        let clock = self.shared.control.clock();
        let until = clock.after(wait);
        if spin::until(self.shared.control.processors(), clock, until) {
            self.let_others_work().await;
            return Ok(None);
        }
        loop {
            match self.next(Batch::new(), Some(until)).await {
                Step::Failed(error) => return Err(error),
                Step::Broken => return Ok(Some(End::Interrupted)),
                Step::Suspended(suspension) => self.suspend(suspension).await?,
                Step::Draining => return self.finish(StreamEnd::Aborted).await.map(Some),
                Step::Due => self.run_timers().await?,
                Step::Relief => self.relieve().await?,
                Step::DueChanged => {}
                // A round of preprocessing, which was due or was interrupted by a pause, does not end the wait.
                Step::Round(round) => {
                    self.process_round(round).await?;
                    self.process_remainder().await?;
                }
                Step::Elapsed | Step::Pulled(..) => return Ok(None),
            }
        }
    }

    /// Waits for `wait` after a pull without an event. `None` means that no wait is needed, because there were only few
    /// such pulls.
    pub(super) async fn slow_down(&mut self, wait: Option<Duration>) -> Result<Option<End>, Error> {
        if let Some(wait) = wait {
            return self.idle(wait).await;
        }
        self.let_others_work().await;
        Ok(None)
    }

    /// Processes the events that were pulled until no event is left, the flow drains, the connection is lost, or the
    /// connector is paused. Callers have to check the last three conditions themselves.
    ///
    /// # Errors
    /// Returns the first error of the source for an acknowledgement.
    async fn process_remainder(&mut self) -> Result<(), Error> {
        let mut acknowledged = Ok(());
        loop {
            if !self.shared.conditions.may_continue() {
                return acknowledged;
            }
            let (is_over, result) = self.round().await;
            acknowledged = acknowledged.and(result);
            if is_over {
                return acknowledged;
            }
        }
    }

    /// Processes all events that were pulled, except for the bytes of incomplete messages. If a [`Limit`] is exceeded,
    /// discards the remaining input.
    ///
    /// # Errors
    /// Returns the first error of the source for an acknowledgement, or of a preprocessor that could not be recreated.
    async fn process_all(&mut self) -> Result<(), Error> {
        let (mut acknowledged, mut rounds) = (Ok(()), Rounds::default());
        loop {
            if self.exceeds_limit(&mut rounds).await? {
                return acknowledged.and(self.abandon().await);
            }
            let (is_over, result) = self.round().await;
            acknowledged = acknowledged.and(result);
            if is_over {
                return acknowledged;
            }
        }
    }

    /// Counts another round under each limit that applies. Returns whether a limit is exceeded.
    async fn exceeds_limit(&mut self, rounds: &mut Rounds) -> Result<bool, Error> {
        let is_stopped = self.shared.control.has_reached(Phase::Stopped);
        let mut exceeds = is_stopped && rounds.exceeds(Limit::Stopped);
        if self.worker.router.connection.as_ref().is_some_and(|it| it.is_broken()) {
            exceeds |= rounds.exceeds(Limit::Lost);
            if rounds.has_begun(Limit::Full) || !self.has_capacity().await? {
                exceeds |= rounds.exceeds(Limit::Full);
            }
        }
        Ok(exceeds)
    }

    /// Waits until all queues have had capacity for a batch, for at most [`CAPACITY_WAIT`]. Returns whether they had.
    async fn has_capacity(&mut self) -> Result<bool, Error> {
        let (router, clock) = (&mut self.worker.router, self.shared.control.clock());
        let waited = executor::first(
            async {
                router.wait_for_capacity().await;
                true
            },
            async {
                clock.sleep(CAPACITY_WAIT).await;
                false
            },
        );
        self.shared.sending(waited).await
    }

    /// Does one round and yields. Returns `true` if no work was left, and the result of the acknowledgements during the
    /// round.
    async fn round(&mut self) -> (bool, Result<(), Error>) {
        let next = self.shared.intake.lock().await.next(&self.shared.egress);
        self.pulled_at = self.shared.control.clock().now();
        if matches!(next, Next::Nothing) {
            return (true, Ok(()));
        }
        let result = self.process_round(next).await.map(drop);
        self.shared.report_pause().await;
        executor::yield_now().await;
        (false, result)
    }

    /// Discards the remaining input. If the source does not redeliver it, counts the input as one failed event, because
    /// the number of events in it is unknown.
    async fn abandon(&mut self) -> Result<(), Error> {
        let is_lost = self.shared.intake.lock().await.abandon()?;
        if is_lost {
            let router = &self.worker.router;
            let error = || {
                Error::connection_lost(
                    "cannot preprocess all of the input: the flow or the connection ended first; the \
                     remainder is discarded",
                )
            };
            self.shared.control.losses().add(&router.name, 1, error);
            router.stats.lost(1);
            if self.shared.control.has_reached(Phase::Stopped) {
                router.stats.undelivered(1);
            } else {
                router.stats.unrecoverable(1);
            }
        }
        Ok(())
    }

    /// Ends the helpers and all streams. If the streams are complete, the buffered messages are sent; if the streams
    /// are aborted, the buffered messages are rejected or fail.
    async fn end_streams(&mut self, how: StreamEnd) -> Result<(), Error> {
        self.end_helpers().await;
        let result = self.process_all().await;
        match how {
            StreamEnd::Complete => self.shared.intake.lock().await.end(),
            StreamEnd::Aborted => self.shared.intake.lock().await.abort(),
        }
        let result = result.and(self.process_all().await);
        if how == StreamEnd::Complete {
            self.shared.intake.lock().await.settle_buffered();
        }
        result
    }

    /// Ends the connection: aborts all streams, because no message continues in the next connection; reports to the
    /// source how its pulls ended; and closes the source. Returns the end to report.
    pub(super) async fn break_off(&mut self, end: End) -> End {
        let ended = self.end_streams(StreamEnd::Aborted).await;
        let (mut result, mut source) = {
            let mut intake = self.shared.intake.lock().await;
            let reported = ended.and_then(|()| intake.report_ended());
            (reported.and_then(|()| intake.fail_outstanding()), intake.take_source())
        };
        if result.is_ok() {
            result = close_in_time(source.close(), self.shared.control).await;
        }
        match (end, result) {
            (End::Interrupted, Err(error)) => End::of(error),
            // If `end` has an error, it occurred first, so a later error of the source is ignored.
            (end, _) => end,
        }
    }

    /// Ends the source after its last pull: ends its streams, sends all events that were pulled, and closes the router.
    pub(super) async fn finish(&mut self, streams: StreamEnd) -> Result<End, Error> {
        self.end_streams(streams).await?;
        self.shared.sending(self.worker.router.close()).await?;
        Ok(End::Finished)
    }

    /// Ends the helper tasks and waits for them.
    async fn end_helpers(&mut self) {
        self.shared.intake.end().await;
        for helper in self.helpers.drain(..) {
            self.idle_helpers.push(helper.await);
        }
    }
}
