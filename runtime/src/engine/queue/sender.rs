//! The sending half of a queue.

use std::{
    future::poll_fn,
    ops::AddAssign,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use tremor_abi::batch::HostBatch;

use crate::engine::{
    queue::{
        Queued,
        mailbox::{Load, Mailbox, Put},
    },
    sync::wakers::WakerSlot,
    tracking::token::Token,
    tuning::{FEW_BYTES, FEW_EVENTS},
};

/// The sending half of a queue. The queue ends when its last sender is dropped.
pub(crate) struct Sender {
    mailbox: Arc<Mailbox<Queued>>,
    /// Registration of this sender while it waits for capacity.
    slot: WakerSlot,
    /// `true` if the tokens of events are settled when the events enter the queue or are refused by it, because the
    /// queue drops events on purpose.
    settles: bool,
    /// Batches for which the queue had no capacity. Empty between calls of [`Sender::take_overflow`].
    overflow: Vec<Queued>,
    spent: Spent,
}

/// Durations of the parts of sending, accumulated over several batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Time spent on waiting for the capacity of full queues.
    pub(crate) waiting: Duration,
    /// Time spent on sending to queues and waking their receivers, without waits.
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
        let (slot, spent) = (WakerSlot::default(), Spent::default());
        Self { mailbox, slot, settles: false, overflow: Vec::new(), spent }
    }

    /// Lets the tokens of events be settled when the events enter the queue.
    pub(crate) fn settle_on_entry(mut self) -> Self {
        self.settles = true;
        self
    }

    /// Returns a sender of the same queue for the tasks of `node`.
    pub(crate) fn of(&self, node: u32) -> Self {
        let mut sender = self.clone();
        sender.slot = WakerSlot::of(node);
        sender
    }

    /// Returns a reference to the queue.
    pub(crate) fn downgrade(&self) -> WeakSender {
        WeakSender { mailbox: Arc::downgrade(&self.mailbox), settles: self.settles }
    }

    /// Waits until the queue has capacity or is closed.
    pub(crate) async fn wait_for_capacity(&mut self) {
        poll_fn(|context| self.mailbox.poll_capacity(context, &mut self.slot)).await;
    }

    /// Returns the number of events in the queue.
    pub(crate) fn events(&self) -> usize {
        self.mailbox.gauge().events()
    }

    /// Sets the memory of the batches that are to be sent after the next one, in bytes. It is counted while the next one
    /// waits for capacity.
    pub(crate) fn set_behind(&mut self, bytes: usize) {
        self.slot.behind = bytes;
    }

    /// Removes a batch from the queue, as if the queue were full. [`Sender::take_overflow`] returns it. Returns whether
    /// there was a batch.
    pub(crate) fn remove(&mut self) -> bool {
        let removed = self.mailbox.remove();
        let is_some = removed.is_some();
        self.overflow.extend(removed);
        is_some
    }

    /// Adds a batch that the queue refused to those that [`Sender::take_overflow`] returns.
    pub(crate) fn add_overflow(&mut self, refused: Queued) {
        self.overflow.push(refused);
    }

    /// Returns the batches for which the queue had no capacity since the last call, in order.
    pub(crate) fn take_overflow(&mut self) -> Vec<Queued> {
        std::mem::take(&mut self.overflow)
    }

    /// Returns the durations since the last call, and resets them.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    /// Sends the batch in `batch`, and runs or wakes the receiver. If `waits` is set, this waits for capacity, unless
    /// the queue [returns](Sender::take_overflow) batches instead. Completes with the batch if the receiver was dropped.
    pub(crate) fn poll_send(
        &mut self,
        context: &Context<'_>,
        batch: &mut Option<(Queued, Load)>,
        waits: bool,
    ) -> Poll<Option<Queued>> {
        let Self { mailbox, slot, settles, overflow, spent } = self;
        // An encoded or small batch leaves the receiver so little work that running the receiver here is cheaper than
        // waking it.
        let is_light = |(queued, load): &(Queued, Load)| {
            queued.is_encoded()
                || (load.events <= FEW_EVENTS && queued.item.batch.weight() <= FEW_BYTES)
        };
        let may_run = batch.as_ref().is_some_and(is_light);
        let token = batch
            .as_mut()
            .filter(|_| *settles)
            .map(|(queued, _)| std::mem::replace(&mut queued.item.token, Token::untracked()));
        match mailbox.poll_put(context, slot, batch, (waits, may_run), overflow) {
            Poll::Pending => {
                // The tokens for a queue whose senders wait are not taken out, so there is none to put back.
                debug_assert!(token.is_none());
                return Poll::Pending;
            }
            Poll::Ready(Put::Refused(mut batch)) => {
                // The receiver has ended, so the events fail.
                batch.item.token = token.unwrap_or(batch.item.token);
                return Poll::Ready(Some(batch));
            }
            Poll::Ready(Put::Full(batch)) => overflow.push(batch),
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
        token.into_iter().for_each(Token::settle);
        Poll::Ready(None)
    }
}

/// A reference to a queue that does not keep it from ending.
#[derive(Clone)]
pub(crate) struct WeakSender {
    mailbox: Weak<Mailbox<Queued>>,
    settles: bool,
}

impl WeakSender {
    /// Returns a sender, unless the queue has ended.
    pub(crate) fn upgrade(&self) -> Option<Sender> {
        let mailbox = self.mailbox.upgrade().filter(|it| it.has_senders())?;
        mailbox.add_sender();
        let mut sender = Sender::new(mailbox);
        sender.settles = self.settles;
        Some(sender)
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.mailbox.add_sender();
        let mut sender = Self::new(self.mailbox.clone());
        (sender.slot, sender.settles) = (WakerSlot::of(self.slot.node()), self.settles);
        sender
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.mailbox.remove_sender(&mut self.slot);
    }
}
