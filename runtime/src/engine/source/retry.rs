//! Retries of failed pulls.

use std::time::Instant;

use tremor_pdk::Error;

use crate::engine::{
    life::{
        connection::End,
        series::{PENDING, Retried},
    },
    source::Session,
};

impl Session<'_> {
    /// Waits before a failed pull is retried, at least for the time that the peer has named.
    pub(super) async fn retry(&mut self, error: &Error) -> Result<Option<End>, Error> {
        self.attempts.fail();
        let (attempt, wait) = (self.attempts.failed(), self.attempts.wait().max(error.delay()));
        let component = &self.worker.router.name;
        self.shared.standing.retry(Retried::Pull, error, wait);
        let now = Instant::now();
        self.failed_at = Some(now);
        if attempt == 1 {
            self.failing_since = Some(now);
        }
        if attempt == 1 && self.shared.notices.admits("retrying pulls") {
            tracing::warn!(%component, %error, ?wait, "the pull failed and is retried");
        } else {
            tracing::debug!(%component, %error, attempt, ?wait, "the pull failed and is retried");
        }
        self.idle(wait).await
    }

    /// Ends the series of failed pulls if the last pull read something, or none has failed for [`PENDING`]. A source that
    /// polls is idle between two polls that fail.
    pub(super) fn recover_unless_idle(&mut self) {
        if self.brings || self.failed_at.is_none_or(|at| at.elapsed() >= PENDING) {
            self.recover();
        }
    }

    /// Ends the series of failed pulls, if there is one, because the source has answered without an error.
    pub(super) fn recover(&mut self) {
        let attempts = self.attempts.failed();
        self.attempts.restart();
        self.failed_at = None;
        let Some(since) = self.failing_since.take() else { return };
        self.shared.standing.recover(Retried::Pull);
        if self.shared.notices.admits("pulling") {
            let component = &self.worker.router.name;
            tracing::info!(%component, attempts, duration = ?since.elapsed(), "pulls succeed again");
        }
    }
}
