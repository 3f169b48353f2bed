//! The source: takes waiting requests into the flow.

use std::{future::poll_fn, sync::Arc};

use tremor_pdk::{Acks, Task, prelude::*};

use super::{
    config::Respond,
    connections::Server,
    queue::{PullAcks, RequestQueue},
};

/// Takes waiting requests into the flow.
pub struct Requests {
    server: Arc<Server>,
    /// Task that accepts connections; `None` after the end.
    accepts: Option<Task>,
    _keeps_time: Task,
}

impl Requests {
    pub(crate) fn new(server: Arc<Server>, accepts: Task, keeps_time: Task) -> Self {
        Self { server, accepts: Some(accepts), _keeps_time: keeps_time }
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

impl Source for Requests {
    type Batch = RawBatch;

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        let mut pulls = PullGuard::new(&self.server.queue);
        poll_fn(|context| self.server.queue.poll_pull(context, batch)).await?;
        pulls.has_ended = true;
        Ok(Pull::Events)
    }

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        let has_acks = self.server.settings.config.respond == Respond::Delivered;
        has_acks.then(|| Box::new(PullAcks(self.server.queue.clone())) as Box<dyn Acks>)
    }

    /// Rejects the requests that are not in the flow. The runtime calls this after the events of
    /// all other requests have ended, so those requests are answered.
    async fn close(&mut self) -> Result<()> {
        self.accepts = None;
        self.server.drain().await;
        Ok(())
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.server.queue.set_sink_down(open);
        Ok(())
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.server.end();
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Requests")
    }
}
