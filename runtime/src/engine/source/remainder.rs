//! The remainder of what a source has pulled: taking it through before the source waits, and when it ends.
//!
//! A few bytes may expand to terabytes in preprocessors. Each round of a loop here does a bounded amount of
//! work, then lets other tasks run, and looks at what may end it.

use std::time::{Duration, Instant};

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

/// Longest wait for capacity after the connection was lost. Longer than a sink that works takes for a batch.
const CAPACITY_WAIT: Duration = Duration::from_secs(1);

/// A condition that limits the rounds for what was pulled, each of about [`Batch::WEIGHT_AT_MOST`] bytes.
#[derive(Clone, Copy)]
enum Limit {
    /// The flow was stopped: it ends two seconds later whatever is left.
    Stopped,
    /// The connection was lost: the next one waits for these rounds.
    Lost,
    /// The connection was lost, and a queue is full. Sending does not wait for capacity then, because only the next
    /// connection may make some, so that this bounds what a lost connection adds to queues.
    Full,
}

impl Limit {
    /// Maximum number of rounds: enough for everything but bombs.
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
    /// Counts a round under `limit`. Returns whether that is one too many.
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
    /// Waits until the next pull is due. Returns the end if the source has to end meanwhile.
    pub(super) async fn idle(&mut self, wait: Duration) -> Result<Option<End>, Error> {
        self.take_rest_through().await?;
        let until = executor::after(wait);
        if spin::until(self.shared.control.processors(), until) {
            self.let_others_work().await;
            return Ok(None);
        }
        loop {
            match self.next(Batch::new(), Some(until)).await {
                Step::Failed(error) => return Err(error),
                Step::Broken => return Ok(Some(End::Interrupted)),
                Step::Held(held) => self.hold(held).await?,
                Step::Draining => return self.finish(StreamEnd::Aborted).await.map(Some),
                Step::Due => self.tell_time().await?,
                Step::Changed => {}
                // A pause that ends does not end the wait.
                Step::WentOn(round) => {
                    self.take_through(round).await?;
                    self.take_rest_through().await?;
                }
                Step::Waited | Step::Pulled(..) => return Ok(None),
            }
        }
    }

    /// Waits after a pull without an event, for `wait` if there were many such pulls.
    pub(super) async fn slow_down(&mut self, wait: Option<Duration>) -> Result<Option<End>, Error> {
        if let Some(wait) = wait {
            return self.idle(wait).await;
        }
        self.let_others_work().await;
        Ok(None)
    }

    /// Takes what was pulled through until the source waits, its flow drains, its connection is lost or it
    /// is paused: those who called look at the last three next.
    async fn take_rest_through(&mut self) -> Result<(), Error> {
        let mut told = Ok(());
        loop {
            if !self.shared.conditions.may_go_on() {
                return told;
            }
            let (is_over, result) = self.round().await;
            told = told.and(result);
            if is_over {
                return told;
            }
        }
    }

    /// Takes everything that was pulled through, as far as it does not wait for more. What is left when a [`Limit`]
    /// is exceeded is discarded.
    async fn take_all_through(&mut self) -> Result<(), Error> {
        let (mut told, mut rounds) = (Ok(()), Rounds::default());
        loop {
            if self.is_one_too_many(&mut rounds).await? {
                return told.and(self.abandon().await);
            }
            let (is_over, result) = self.round().await;
            told = told.and(result);
            if is_over {
                return told;
            }
        }
    }

    /// Counts another round. Returns whether it exceeds a limit.
    async fn is_one_too_many(&mut self, rounds: &mut Rounds) -> Result<bool, Error> {
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

    /// Returns whether all queues have capacity for a batch, or get it within [`CAPACITY_WAIT`].
    async fn has_capacity(&mut self) -> Result<bool, Error> {
        let router = &mut self.worker.router;
        let waited = executor::first(
            async {
                router.room().await;
                true
            },
            async {
                executor::sleep(CAPACITY_WAIT).await;
                false
            },
        );
        self.shared.sending(waited).await
    }

    /// Does one round, and lets other tasks run. Returns whether it was the last.
    async fn round(&mut self) -> (bool, Result<(), Error>) {
        let next = self.shared.intake.lock().await.next(&self.shared.egress);
        self.pulled_at = Instant::now();
        if matches!(next, Next::Nothing) {
            return (true, Ok(()));
        }
        let told = self.take_through(next).await.map(drop);
        self.shared.report_rest().await;
        executor::yield_now().await;
        (false, told)
    }

    /// Discards what was pulled and is not taken through. If the source does not read it again, it counts as one failed
    /// event: the number of events in it is not known.
    async fn abandon(&mut self) -> Result<(), Error> {
        let is_lost = self.shared.intake.lock().await.abandon()?;
        if is_lost {
            let router = &self.worker.router;
            let error = || {
                Error::connection_lost(
                    "cannot preprocess all of what was read: the flow or the connection ended first; \
                     the remainder is discarded",
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

    /// Ends all streams: what preprocessors hold is sent, or rejected.
    async fn end_streams(&mut self, how: StreamEnd) -> Result<(), Error> {
        self.helpers_end().await;
        let told = self.take_all_through().await;
        match how {
            StreamEnd::Complete => self.shared.intake.lock().await.end(),
            StreamEnd::Aborted => self.shared.intake.lock().await.abort(),
        }
        let told = told.and(self.take_all_through().await);
        if how == StreamEnd::Complete {
            self.shared.intake.lock().await.settle_held();
        }
        told
    }

    /// Ends the connection with its streams: no message that began in it continues in the next one. The source is
    /// notified of the pulls that have ended.
    pub(super) async fn breaks_off(&mut self, end: End) -> End {
        let ended = self.end_streams(StreamEnd::Aborted).await;
        let (mut told, mut source) = {
            let mut intake = self.shared.intake.lock().await;
            let told = ended.and_then(|()| intake.tell_ended());
            (told.and_then(|()| intake.fail_outstanding()), intake.take_source())
        };
        if told.is_ok() {
            told = close_in_time(source.close(), self.shared.control).await;
        }
        match (end, told) {
            // The connection is lost already: an error of its source adds nothing.
            (End::Interrupted, Err(error)) => End::of(error),
            (end, _) => end,
        }
    }

    /// Ends the source after its last pull, once everything that was pulled is sent.
    pub(super) async fn finish(&mut self, streams: StreamEnd) -> Result<End, Error> {
        self.end_streams(streams).await?;
        self.shared.sending(self.worker.router.close()).await?;
        Ok(End::Finished)
    }

    /// Waits until no task helps any more.
    async fn helpers_end(&mut self) {
        self.shared.intake.end().await;
        for helper in self.helpers.drain(..) {
            self.idle_helpers.push(helper.await);
        }
    }
}
