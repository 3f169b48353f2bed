//! Retries of failed pulls.

use std::time::Duration;

use tremor_pdk::Error;

use crate::engine::{
    handle::{connection::End, series::Retried},
    source::Session,
};

impl Session<'_> {
    /// Waits before a failed pull is retried. The wait is at least the delay that `error` contains.
    pub(super) async fn retry(&mut self, error: &Error) -> Result<Option<End>, Error> {
        self.attempts.fail();
        let (attempt, wait) = (self.attempts.failed(), self.attempts.wait().max(error.delay()));
        let component = &self.worker.router.name;
        self.shared.handle.retry(Retried::Pull, error, wait);
        if attempt == 1 {
            self.failing_since = Some(self.shared.control.clock().now());
        }
        if attempt == 1 && self.shared.notices.admits("retrying pulls") {
            tracing::warn!(%component, %error, ?wait, "the pull failed and is retried");
        } else {
            tracing::debug!(%component, %error, attempt, ?wait, "the pull failed and is retried");
        }
        self.idle(wait).await
    }

    /// Ends the series of failed pulls after the source answered that it has no data for `wait`. A source that polls
    /// its peer is idle between two failed polls. The series therefore continues if that pull read nothing and the
    /// connector's handle still tracks the series.
    pub(super) fn recover_after_idle(&mut self, wait: Duration) {
        let is_failing = !self.has_read && self.failing_since.is_some();
        if !is_failing || !self.shared.handle.idle(wait) {
            self.recover();
        }
    }

    /// Ends the series of failed pulls, if there is one. Call this after a pull without an error.
    pub(super) fn recover(&mut self) {
        let attempts = self.attempts.failed();
        self.attempts.restart();
        let Some(since) = self.failing_since.take() else { return };
        self.shared.handle.recover(Retried::Pull);
        if self.shared.notices.admits("pulling") {
            let component = &self.worker.router.name;
            let duration = self.shared.control.clock().elapsed(since);
            tracing::info!(%component, attempts, ?duration, "pulls succeed again");
        }
    }
}
