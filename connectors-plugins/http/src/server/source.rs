//! The source: takes waiting requests into the flow.

use std::{future::poll_fn, marker::PhantomData};

use tremor_pdk::{Acks, TypedBatch, prelude::*};

use super::{
    config::Respond,
    listening::Serving,
    queue::{PullAcks, Put, RequestQueue},
};

/// Takes waiting requests into the flow. `F` is the form of their events.
pub struct Requests<F> {
    serving: Serving,
    form: PhantomData<F>,
}

impl<F> Requests<F> {
    pub(crate) const fn new(serving: Serving) -> Self {
        Self { serving, form: PhantomData }
    }
}

/// Guard of a pull that waits for requests. If the guard is dropped before the pull has ended, the
/// pull was cancelled, because the flow drains or the connector is paused.
struct PullGuard<'r> {
    queue: &'r RequestQueue,
    has_ended: bool,
}

impl<'r> PullGuard<'r> {
    fn new(queue: &'r RequestQueue) -> Self {
        queue.set_pull_cancelled(false);
        Self { queue, has_ended: false }
    }
}

impl Drop for PullGuard<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queue.set_pull_cancelled(true);
        }
    }
}

impl<F: Put> Source for Requests<F> {
    type Batch = TypedBatch<F>;

    async fn pull(&mut self, batch: &mut TypedBatch<F>) -> Result<Pull> {
        let queue = &self.serving.server.queue;
        let mut pulls = PullGuard::new(queue);
        poll_fn(|context| queue.poll_pull(context, batch)).await?;
        pulls.has_ended = true;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        let server = &self.serving.server;
        let has_acks = server.settings.config.respond == Respond::Delivered;
        has_acks.then(|| Box::new(PullAcks(server.queue.clone())) as Box<dyn Acks>)
    }

    /// Rejects the requests that are not in the flow. The runtime calls this after the events of
    /// all other requests have ended, so those requests are answered.
    async fn close(&mut self) -> Result<()> {
        self.serving.drain().await;
        Ok(())
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.serving.server.queue.set_sink_down(open);
        Ok(())
    }
}

impl<F> std::fmt::Debug for Requests<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Requests")
    }
}
