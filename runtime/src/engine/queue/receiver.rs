//! The receiving half of a queue.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::engine::{
    processors::{Processors, Working},
    queue::{Queued, mailbox::Mailbox},
    sync::{gauge::Gauge, wakers},
    tracking::stats::Left,
};

/// The receiving half of a queue.
pub(crate) struct Receiver {
    mailbox: Arc<Mailbox<Queued>>,
    processors: Processors,
    /// Counts the receiving task as working. Set while the task receives batches that it has to encode itself, because
    /// encoding takes a processor.
    working: Option<Working>,
    /// Wakers of senders. Empty between calls.
    woken: Vec<Option<Waker>>,
}

impl Receiver {
    pub(super) fn new(mailbox: Arc<Mailbox<Queued>>, processors: Processors) -> Self {
        Self { mailbox, processors, working: None, woken: Vec::new() }
    }

    /// Receives the next batch. Completes with `None` once the queue is empty and all senders were dropped.
    pub(crate) fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<Queued>> {
        let Self { mailbox, processors, working, woken } = self;
        let taken = mailbox.poll_take(context, woken);
        wakers::wake(woken);
        match &taken {
            Poll::Ready(Some(queued)) if queued.is_encoded() => *working = None,
            Poll::Ready(Some(_)) => _ = working.get_or_insert_with(|| processors.working()),
            _ => {}
        }
        taken
    }

    /// Removes and returns a batch, if there is one.
    pub(crate) fn take_any(&self) -> Option<Queued> {
        self.mailbox.remove()
    }

    /// Completes once the queue is empty and all senders were dropped.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        self.mailbox.poll_ended(context)
    }

    /// Returns the mailbox of the queue, which [`Host`](crate::engine::queue::mailbox::Host) needs for the receiving
    /// task.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox<Queued>> {
        self.mailbox.clone()
    }

    /// Returns a gauge of the queue's size.
    pub(crate) fn gauge(&self) -> Gauge {
        self.mailbox.gauge()
    }

    /// Returns a function that lists the nodes whose senders wait for capacity, each with the start of the wait.
    pub(crate) fn senders(&self) -> Box<dyn Fn() -> Vec<(u32, Instant)> + Send + Sync> {
        let mailbox = Arc::downgrade(&self.mailbox);
        Box::new(move || mailbox.upgrade().map_or_else(Vec::new, |it| it.waiting()))
    }

    /// Returns a function that returns whether the queue has senders.
    pub(crate) fn has_senders(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let mailbox = Arc::downgrade(&self.mailbox);
        Box::new(move || mailbox.upgrade().is_some_and(|it| it.has_senders()))
    }

    /// Stops counting the receiving task as working, because it receives nothing for a while.
    pub(crate) fn set_idle(&mut self) {
        self.working = None;
    }

    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.mailbox.is_full()
    }

    /// Closes the queue and fails the remaining events. Returns the numbers of these events.
    pub(crate) fn close(self) -> Left {
        let mut left = Left { events: self.mailbox.close(), lost: 0 };
        for (queued, _) in self.mailbox.clear() {
            left.lost += queued.left().lost;
            queued.fail();
        }
        left
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.mailbox.close();
        self.mailbox.clear().into_iter().for_each(|(queued, _)| queued.fail());
    }
}
