//! The end of a queue that batches come out of.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::engine::{
    processors::{Processors, Working},
    queue::{Left, Queued, mailbox::Mailbox},
    sync::{gauge::Gauge, wakers},
};

/// The end that batches come out of.
pub(crate) struct Receiver {
    mailbox: Arc<Mailbox<Queued>>,
    processors: Processors,
    /// Whether there is so much to do with a batch that it takes a processor.
    working: Option<Working>,
    /// Senders that are to be woken. Empty between calls.
    woken: Vec<Option<Waker>>,
}

impl Receiver {
    pub(super) fn new(mailbox: Arc<Mailbox<Queued>>, processors: Processors) -> Self {
        Self { mailbox, processors, working: None, woken: Vec::new() }
    }

    /// The next batch; `None` once the queue is closed and empty.
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

    /// Ready once there is no sender, and nothing is in it.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        self.mailbox.poll_ended(context)
    }

    /// Where batches come from, to [host](crate::engine::queue::mailbox::Host) the task that has this end.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox<Queued>> {
        self.mailbox.clone()
    }

    /// Tells how much is in the queue, from anywhere.
    pub(crate) fn gauge(&self) -> Gauge {
        self.mailbox.gauge()
    }

    /// Returns a function that lists the nodes whose senders wait for capacity, each with the start of the wait.
    pub(crate) fn senders(&self) -> Box<dyn Fn() -> Vec<(u32, Instant)> + Send + Sync> {
        let mailbox = Arc::downgrade(&self.mailbox);
        Box::new(move || mailbox.upgrade().map_or_else(Vec::new, |it| it.waiting()))
    }

    /// Nothing is taken out for now: no processor is needed for that.
    pub(crate) fn rest(&mut self) {
        self.working = None;
    }

    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.mailbox.is_full()
    }

    /// Closes the queue, and drops the events that are left in it, which fails them. Returns their number.
    pub(crate) fn close(self) -> Left {
        let mut left = Left { events: self.mailbox.close(), lost: 0 };
        for (queued, _) in self.mailbox.clear() {
            left.lost += if queued.item.token.is_tracked() { 0 } else { queued.events() };
        }
        left
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.mailbox.close();
        // What is left fails as it is dropped.
        drop(self.mailbox.clear());
    }
}
