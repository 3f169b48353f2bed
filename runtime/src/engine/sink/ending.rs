//! The end of a sink that does not run any more: what becomes of the events that it has.

use std::task::{Context, Poll};

use crate::{
    engine::{logging::losses::OverflowReason, route::fan_out::count_drop, sink::SinkSide},
    flow::WhenFull,
};

impl SinkSide {
    /// Fails or drops all undelivered events, because the sink has ended permanently, and counts them. `is_leaving` is
    /// `true` if a reload removes the sink: then the sources are not notified that events have failed, because they would
    /// read these events again for the other sinks.
    pub(crate) fn abandon(mut self, is_leaving: bool) {
        let drops = self.when_full.drops();
        self.backlog.take_back();
        if is_leaving && !self.is_stored {
            return self.leave(drops);
        }
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

    /// Gives up all undelivered events, because a reload removes the sink.
    fn leave(mut self, drops: bool) {
        let stats = self.router.stats.clone();
        let mut events = self.backlog.events();
        self.backlog.take_items().for_each(|item| item.token.settle());
        while let Some(queued) = self.queue.take_any() {
            stats.taken(queued.events());
            events += queued.events();
            queued.item.token.settle();
        }
        // A task with an earlier batch may have sent meanwhile.
        stats.left(self.queue.close());
        let name = &*self.router.name;
        if drops {
            return count_drop(name, events, OverflowReason::SinkRemoved, &stats, &self.control);
        }
        stats.failed(events);
        stats.undelivered(events);
        if events > 0 || self.undrained {
            tracing::warn!(
                component = name,
                events,
                "the removed sink had events that it could not deliver in time, so they are lost"
            );
        }
    }

    /// Returns whether the sink may have to end although it has events: it stops no source, or its events stay on disk.
    pub(crate) fn may_give_up(&self) -> bool {
        (self.is_stored && !self.undrained) || !self.when_full.blocks()
    }

    /// Passes all undelivered events on to `err`, if the queue does so with events for which it has no capacity. A sink that
    /// a reload removes (`is_leaving`) does so if `err` is linked, unless its events stay on disk or are dropped.
    pub(crate) async fn pass_on_undelivered(&mut self, is_leaving: bool) {
        let is_leaving = is_leaving && !self.is_stored && self.when_full.blocks();
        if self.when_full != WhenFull::DeadLetter
            && !(is_leaving && self.router.has_err_link().await)
        {
            return;
        }
        let why = if is_leaving { OverflowReason::SinkRemoved } else { OverflowReason::FlowEnded };
        self.backlog.take_back();
        for item in self.backlog.take_items() {
            self.router.pass_on(item, why).await;
        }
        while let Some(queued) = self.queue.take_any() {
            self.router.stats.taken(queued.events());
            self.router.pass_on(queued.item, why).await;
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
