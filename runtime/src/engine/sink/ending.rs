//! The end of a sink that does not run any more: what becomes of the events that it has.

use std::task::{Context, Poll};

use crate::{
    engine::{logging::losses::OverflowReason, route::fan_out::count_drop, sink::SinkSide},
    flow::WhenFull,
};

impl SinkSide {
    /// Fails or drops all undelivered events, because the sink has ended permanently, and counts them.
    pub(crate) fn abandon(mut self) {
        let drops = self.when_full.drops();
        self.backlog.take_back();
        if self.undrained && drops {
            tracing::warn!(
                component = &*self.router.name,
                "the sink ended while it buffered events that count as delivered, as `queue.when_full` permits"
            );
        } else if self.undrained {
            // The sink has acknowledged events that it still buffers, so these do not fail.
            self.control.leave_undrained();
        }
        let (stats, waiting) = (&self.router.stats, self.backlog.left());
        self.backlog.fail();
        let queued = self.queue.close();
        if self.is_stored {
            // The sink has not taken what is in its queue in memory.
            stats.returned(waiting.events);
        } else if drops {
            stats.taken(queued.events);
            let (events, why) = (waiting.events + queued.events, OverflowReason::FlowEnded);
            count_drop(&self.router.name, events, why, stats, &self.control);
        } else {
            stats.left(queued);
            stats.failed(waiting.events);
            stats.undelivered(waiting.lost);
        }
    }

    /// Returns whether the sink may have to end although it has events: it stops no source, or its events stay on disk.
    pub(crate) fn may_give_up(&self) -> bool {
        (self.is_stored && !self.undrained) || !self.when_full.blocks()
    }

    /// Passes all undelivered events on to `err`, if the queue does so with events for which it has no capacity.
    pub(crate) async fn pass_on_undelivered(&mut self) {
        if self.when_full != WhenFull::DeadLetter {
            return;
        }
        self.backlog.take_back();
        for item in self.backlog.take_items() {
            self.router.pass_on(item, OverflowReason::FlowEnded).await;
        }
        while let Some(queued) = self.queue.take_any() {
            self.router.stats.taken(queued.events());
            self.router.pass_on(queued.item, OverflowReason::FlowEnded).await;
        }
    }

    /// Completes once the queue has ended and all deliveries were answered. If an attempt to close the sink was made,
    /// also waits until the sink is closed. The sink may be disconnected meanwhile.
    pub(crate) fn poll_done(&self, context: &Context<'_>) -> Poll<()> {
        if self.undrained || (self.when_full.blocks() && !self.backlog.is_empty()) {
            return Poll::Pending;
        }
        // The tasks that feed the sink may give up its deliveries before they end, so the task is woken by their end.
        let ended = self.queue.poll_ended(context);
        let is_empty = self.backlog.is_empty() && self.backlog.is_aside_empty();
        if is_empty { ended } else { Poll::Pending }
    }
}
