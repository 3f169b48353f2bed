//! Work of a source during which it is not pulled.

use std::{future::poll_fn, pin::pin, task::Poll};

use tremor_pdk::Error;

use super::Shared;

impl Shared<'_> {
    /// Notifies the gate of a pause and of its end. Call this between rounds of work during which the source is not
    /// pulled.
    pub(super) async fn report_pause(&mut self) {
        poll_fn(|context| {
            let Poll::Ready(mut intake) = self.intake.poll_lock(context) else {
                return Poll::Pending;
            };
            if self.conditions.is_paused(context) {
                intake.leave_steady();
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Runs `work`, which sends to queues. While `work` waits for capacity, notifies the source of pulls that have
    /// ended, and the gate of a pause.
    ///
    /// # Errors
    /// Returns the first error of the source for an acknowledgement, after `work` is done.
    pub(super) async fn sending<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        let mut work = pin!(work);
        // If an acknowledgement fails, the events that were already read still have to be sent.
        let mut acknowledged = Ok(());
        loop {
            let ended = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Err(done)),
                Poll::Pending => {
                    // The pause is checked while the intake is locked, so that no helper pulls in the meantime.
                    if let Poll::Ready(mut intake) = self.intake.poll_lock(context)
                        && self.conditions.is_paused(context)
                    {
                        intake.leave_steady();
                    }
                    self.conditions.poll_ended(context).map(Ok)
                }
            });
            match ended.await {
                Ok(ended) => {
                    let result = self.intake.lock().await.acknowledge(ended);
                    acknowledged = acknowledged.and(result);
                }
                Err(done) => return acknowledged.map(|()| done),
            }
        }
    }
}
