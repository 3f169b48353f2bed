//! The sending half of a queue.

use std::{
    future::poll_fn,
    ops::AddAssign,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tremor_abi::batch::HostBatch;

use crate::engine::{
    handle::connection::Connection,
    queue::{
        Queued,
        mailbox::{Load, Mailbox, Put},
    },
    sync::wakers::WakerSlot,
    tuning::{FEW_BYTES, FEW_EVENTS},
};

/// The sending half of a queue. The queue ends when its last sender is dropped.
pub(crate) struct Sender {
    mailbox: Arc<Mailbox<Queued>>,
    /// Registration of this sender while it waits for capacity.
    slot: WakerSlot,
    spent: Spent,
}

/// Durations of the parts of sending, accumulated over several batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Time spent on sending to full queues, which is mostly the wait for capacity.
    pub(crate) waiting: Duration,
    /// Time spent on sending to other queues and waking their receivers.
    pub(crate) handing: Duration,
    /// Time spent on running receivers' tasks in the sender's task.
    pub(crate) running: Duration,
    /// Time spent waiting for in-order sections that other tasks were in.
    pub(crate) in_order: Duration,
    /// Time spent in in-order sections, except the wait for capacity.
    pub(crate) inside: Duration,
    /// `true` if a parked receiver was woken.
    pub(crate) woke: bool,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.handing += other.handing;
        self.running += other.running;
        self.in_order += other.in_order;
        self.inside += other.inside;
        self.woke |= other.woke;
    }
}

impl Sender {
    pub(super) fn new(mailbox: Arc<Mailbox<Queued>>) -> Self {
        Self { mailbox, slot: WakerSlot::default(), spent: Spent::default() }
    }

    /// Returns a sender of the same queue for the tasks of `node`.
    pub(crate) fn of(&self, node: u32) -> Self {
        let mut sender = self.clone();
        sender.slot = WakerSlot::of(node);
        sender
    }

    /// Waits for capacity and sends the batch. Returns the batch if the receiver was dropped.
    ///
    /// If `connection`, the sender's own connection, is broken, this no longer waits for capacity. The queue may be one
    /// that only the other side of the same connection empties, and the next connection begins only after this side has
    /// ended. The next connection begins to pull only [when there is capacity](Sender::wait_for_capacity).
    pub(crate) async fn send(
        &mut self,
        batch: Queued,
        connection: Option<&Connection>,
    ) -> Option<Queued> {
        let load = batch.load();
        let mut batch = Some((batch, load));
        let start = self.mailbox.clock().now();
        let is_full = self.mailbox.is_full();
        let mut broken = connection.map(Connection::broken);
        let refused = poll_fn(|context| {
            let polled = self.poll_send(context, &mut batch, true);
            let mut is_broken = || broken.as_mut().is_some_and(|it| it.poll(context).is_ready());
            if polled.is_ready() || !is_broken() {
                return polled;
            }
            self.poll_send(context, &mut batch, false)
        })
        .await;
        let spent = self.mailbox.clock().elapsed(start).saturating_sub(self.spent.running);
        if is_full {
            self.spent.waiting += spent;
        } else {
            self.spent.handing += spent;
        }
        refused
    }

    /// Waits until the queue has capacity or is closed.
    pub(crate) async fn wait_for_capacity(&mut self) {
        poll_fn(|context| self.mailbox.poll_capacity(context, &mut self.slot)).await;
    }

    /// Returns the durations since the last call, and resets them.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    /// Sends the batch in `batch`, and runs or wakes the receiver. If `waits` is set, this waits for capacity.
    /// Completes with the batch if the receiver was dropped.
    pub(super) fn poll_send(
        &mut self,
        context: &Context<'_>,
        batch: &mut Option<(Queued, Load)>,
        waits: bool,
    ) -> Poll<Option<Queued>> {
        let Self { mailbox, slot, spent, .. } = self;
        // An encoded or small batch leaves the receiver so little work that running the receiver here is cheaper than
        // waking it.
        let is_light = |(queued, load): &(Queued, Load)| {
            queued.is_encoded()
                || (load.events <= FEW_EVENTS && queued.item.batch.weight() <= FEW_BYTES)
        };
        let may_run = batch.as_ref().is_some_and(is_light);
        match mailbox.poll_put(context, slot, batch, waits, may_run) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Put::Refused(batch)) => return Poll::Ready(Some(batch)),
            Poll::Ready(Put::Taken) => {}
            Poll::Ready(Put::Awaited(receiver)) if receiver.is_lent() => {
                let start = mailbox.clock().now();
                receiver.run_or_wake();
                spent.running += mailbox.clock().elapsed(start);
            }
            Poll::Ready(Put::Awaited(receiver)) => {
                spent.woke = true;
                receiver.run_or_wake();
            }
        }
        Poll::Ready(None)
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.mailbox.add_sender();
        let mut sender = Self::new(self.mailbox.clone());
        sender.slot = WakerSlot::of(self.slot.node());
        sender
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.mailbox.remove_sender(&mut self.slot);
    }
}
