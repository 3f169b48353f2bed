//! A pipeline that several tasks feed, as a task of its own.

use std::{future::poll_fn, sync::Arc, task::Poll};

use super::{
    control::{Control, Phase},
    queue::Receiver,
    router::Router,
};

/// A pipeline with its queue. Its operators are the first stage of its router.
pub(crate) struct PipelineTask {
    pub(crate) queue: Receiver,
    pub(crate) router: Router,
    pub(crate) control: Arc<Control>,
}

impl PipelineTask {
    /// Runs until everybody who feeds it is gone.
    pub(crate) async fn run(mut self) {
        loop {
            let received = poll_fn(|context| {
                if let Poll::Ready(received) = self.queue.poll_receive(context) {
                    return Poll::Ready(received);
                }
                self.control.poll_phase(context, Phase::Stopped).map(|()| None)
            });
            match received.await {
                Some(item) => self.router.emit(item).await,
                None => break,
            }
        }
        // Nothing, unless the flow was stopped.
        self.router.stats.failed(self.queue.close());
    }
}
