//! What a source has pulled and not taken through yet: before it waits, and when it ends.
//!
//! A few bytes may expand to terabytes in preprocessors. Each round of a loop here does a bounded amount of
//! work, then lets other tasks run, and looks at what may end it.

use std::time::{Duration, Instant};

use tremor_pdk::{Batch, Error};

use super::{Session, Step};
use crate::{
    engine::{
        life::{connection::End, control::Phase, last_call::in_time},
        spin,
    },
    executor,
    processor::{Next, StreamEnd},
};

/// Maximum number of rounds after the connection was lost, each of about [`Batch::WEIGHT_AT_MOST`] bytes. The next
/// connection waits for them.
const ROUNDS_WHEN_LOST: usize = 64;

/// Maximum number of these rounds while a queue is full. Sending does not wait for capacity then, because only the
/// next connection may make some, so that this bounds what a lost connection adds to queues.
const ROUNDS_WITHOUT_CAPACITY: usize = 8;

/// Longest wait for capacity after the connection was lost. Longer than a sink that works takes for a batch.
const CAPACITY_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of rounds after the flow was stopped: it ends two seconds later whatever is left. Enough for
/// everything but bombs.
const ROUNDS_WHEN_STOPPED: usize = 8;

impl Session<'_> {
    /// Waits until the next pull is due. The end, where the source is to end meanwhile.
    pub(super) async fn idle(&mut self, wait: Duration) -> Result<Option<End>, Error> {
        self.take_rest_through().await?;
        let until = executor::after(wait);
        if spin::until(self.shared.control.processors(), until) {
            self.let_others_work().await;
            return Ok(None);
        }
        loop {
            let (step, pulled) = self.next(Batch::new(), Some(until)).await;
            if let Next::Piece((pulled, ticket)) = pulled {
                self.take_through(pulled, ticket).await?;
            }
            match step {
                Step::Failed(error) => return Err(error),
                Step::Broken => return Ok(Some(End::Interrupted)),
                Step::Held(held) => self.hold(held).await?,
                Step::Draining => return self.finish(StreamEnd::Aborted).await.map(Some),
                Step::Due => self.tell_time().await?,
                Step::Changed => {}
                Step::Waited | Step::Pulled(_) | Step::WentOn => return Ok(None),
            }
        }
    }

    /// After a pull without an event: waits before the next one where there have been many.
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
            if !self.shared.others.may_go_on() {
                return told;
            }
            let (is_over, result) = self.round().await;
            told = told.and(result);
            if is_over {
                return told;
            }
        }
    }

    /// Takes everything that was pulled through, as far as it does not wait for more. What is left some
    /// rounds after the flow was [stopped](ROUNDS_WHEN_STOPPED) or the connection was
    /// [lost](ROUNDS_WHEN_LOST) is discarded, or sooner if the queues [stay full](ROUNDS_WITHOUT_CAPACITY).
    async fn take_all_through(&mut self) -> Result<(), Error> {
        let (mut told, mut late, mut lost, mut excess) = (Ok(()), 0, 0, 0);
        loop {
            let connection = self.worker.router.connection.as_ref();
            late += usize::from(self.shared.control.has_reached(Phase::Stopped));
            if connection.is_some_and(|it| it.is_broken()) {
                lost += 1;
                if excess > 0 || !self.has_capacity().await? {
                    excess += 1;
                }
            }
            if late > ROUNDS_WHEN_STOPPED
                || lost > ROUNDS_WHEN_LOST
                || excess > ROUNDS_WITHOUT_CAPACITY
            {
                return told.and(self.abandon().await);
            }
            let (is_over, result) = self.round().await;
            told = told.and(result);
            if is_over {
                return told;
            }
        }
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
        let told = match next {
            Next::Nothing => return (true, Ok(())),
            Next::More => Ok(()),
            Next::Piece((pulled, ticket)) => self.take_through(pulled, ticket).await.map(drop),
        };
        self.shared.report_rest().await;
        executor::yield_now().await;
        (false, told)
    }

    /// Discards what was pulled and is not taken through.
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

    /// All streams end: what preprocessors hold goes out, or is rejected.
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

    /// The connection is over, and its streams with it: nothing that has begun in it goes on in the
    /// next one. The source hears of what it can be told.
    pub(super) async fn breaks_off(&mut self, end: End) -> End {
        let ended = self.end_streams(StreamEnd::Aborted).await;
        let (mut told, mut source) = {
            let mut intake = self.shared.intake.lock().await;
            let told = ended.and_then(|()| intake.tell_ended());
            (told.and_then(|()| intake.fail_outstanding()), intake.take_source())
        };
        if told.is_ok() {
            told = in_time("close", source.close(), self.shared.control, Phase::Stopped).await;
        }
        match (end, told) {
            // What the source has to say of that is said of a connection that is lost as it is.
            (End::Interrupted, Err(error)) => End::of(error),
            (end, _) => end,
        }
    }

    /// Nothing more is pulled; what was is on its way.
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
