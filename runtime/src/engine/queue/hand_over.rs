//! Access to the queue between two tasks without a flow. Only benchmarks use it.

use std::future::poll_fn;

use tremor_pdk::Batch;

use crate::clock::Clock;
use crate::engine::{
    processors::Processors,
    queue::{self, Bounds, Overflow, Queued},
    tracking::token::{InFlight, Token},
};

/// The sending half of a queue.
pub struct Sender(queue::Sender);

/// The receiving half of a queue.
pub struct Receiver(queue::Receiver);

/// Creates a queue with the default limits of a flow's queues.
pub fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = queue::bounded(
        Bounds::default(),
        Overflow::Wait,
        &Processors::default(),
        &Clock::default(),
    );
    (Sender(sender), Receiver(receiver))
}

impl Sender {
    /// Waits for capacity and sends `batch`. Returns `false` if the receiver was dropped.
    pub async fn send(&mut self, batch: Batch) -> bool {
        let queued = Queued::from(InFlight::new(batch, Token::untracked()));
        let load = queued.load();
        let mut batch = Some((queued, load));
        poll_fn(|context| self.0.poll_send(context, &mut batch, true)).await.is_none()
    }
}

impl Receiver {
    /// Receives the next batch. Returns `None` once the queue is empty and the sender was dropped.
    pub async fn receive(&mut self) -> Option<Batch> {
        poll_fn(|context| self.0.poll_receive(context)).await.map(|queued| queued.item.batch)
    }
}
