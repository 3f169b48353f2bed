//! The queue between two tasks by itself, for benchmarks only.

use std::future::poll_fn;

use tremor_pdk::Batch;

use crate::engine::{
    account::token::{InFlight, Token},
    processors::Processors,
    queue::{self, Bounds},
};

/// The end that batches go into.
pub struct Sender(queue::Sender);

/// The end that batches come out of.
pub struct Receiver(queue::Receiver);

/// A queue with the bounds of every queue of a flow.
pub fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = queue::bounded(Bounds::default(), &Processors::default());
    (Sender(sender), Receiver(receiver))
}

impl Sender {
    /// Waits for room and puts the batch in; `false` where there is no receiver any more.
    pub async fn send(&mut self, batch: Batch) -> bool {
        let item = InFlight::new(batch, Token::untracked());
        self.0.send(item.into(), None).await.is_none()
    }
}

impl Receiver {
    /// The next batch; `None` once the queue is closed and empty.
    pub async fn receive(&mut self) -> Option<Batch> {
        poll_fn(|context| self.0.poll_receive(context)).await.map(|queued| queued.item.batch)
    }
}
