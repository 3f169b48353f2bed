//! The end of a queue that batches go into.

use std::{
    future::poll_fn,
    ops::AddAssign,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_abi::batch::HostBatch;

use crate::engine::{
    handle::connection::Connection,
    queue::{
        Queued,
        mailbox::{Load, Mailbox, Parked, Put},
    },
    sync::wakers::Place,
    tuning::{FEW_BYTES, FEW_EVENTS, LONG_RUN, LONG_RUNS, WOKEN_FOR},
};

/// The end that batches go into. The queue closes with its last sender.
pub(crate) struct Sender {
    mailbox: Arc<Mailbox<Queued>>,
    /// Among the senders that wait for room.
    place: Place,
    spent: Spent,
    /// Times in a row that the receiver took long when this end ran it.
    long_runs: u32,
    /// Until when it is woken for that.
    woken_until: Option<Instant>,
}

/// What a sender spent its time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Waiting for room.
    pub(crate) waiting: Duration,
    /// Handing over, and waking the receiver.
    pub(crate) handing: Duration,
    /// Running the receiver.
    pub(crate) running: Duration,
    /// Waiting for an in-order section that another task was in.
    pub(crate) in_order: Duration,
    /// Whether a receiver was parked, and had to be woken.
    pub(crate) woke: bool,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.handing += other.handing;
        self.running += other.running;
        self.in_order += other.in_order;
        self.woke |= other.woke;
    }
}

impl Sender {
    pub(super) fn new(mailbox: Arc<Mailbox<Queued>>) -> Self {
        Self {
            mailbox,
            place: Place::default(),
            spent: Spent::default(),
            long_runs: 0,
            woken_until: None,
        }
    }

    /// Returns a sender of the same queue for the tasks of `node`.
    pub(crate) fn of(&self, node: u32) -> Self {
        let mut sender = self.clone();
        sender.place = Place::of(node);
        sender
    }

    /// Waits for room and puts the batch in. Where the receiver is gone, the batch is given back.
    /// Once the sender's own `connection` is broken, it does not wait: what makes room may be the other
    /// side of the same connection, or be fed by that, and wait for this one. The next connection
    /// begins when there is [room](Sender::room).
    pub(crate) async fn send(
        &mut self,
        batch: Queued,
        connection: Option<&Connection>,
    ) -> Option<Queued> {
        let load = batch.load();
        let mut batch = Some((batch, load));
        let start = Instant::now();
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
        let end = Instant::now();
        let spent = end.saturating_duration_since(start).saturating_sub(self.spent.running);
        if is_full {
            self.spent.waiting += spent;
        } else {
            self.spent.handing += spent;
        }
        refused
    }

    /// Waits until a batch may go in, or would be given back.
    pub(crate) async fn room(&mut self) {
        poll_fn(|context| self.mailbox.poll_room(context, &mut self.place)).await;
    }

    /// What this end has spent its time on since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    pub(super) fn poll_send(
        &mut self,
        context: &Context<'_>,
        batch: &mut Option<(Queued, Load)>,
        waits: bool,
    ) -> Poll<Option<Queued>> {
        let Self { mailbox, place, spent, long_runs, woken_until, .. } = self;
        // What is encoded, and what is little, leaves the receiver so little to do that this is the best place for it.
        let is_light = |(queued, load): &(Queued, Load)| {
            queued.is_encoded()
                || (load.events <= FEW_EVENTS && queued.item.batch.weight() <= FEW_BYTES)
        };
        let may_run = batch.as_ref().is_some_and(is_light)
            && woken_until.is_none_or(|until| until <= Instant::now());
        match mailbox.poll_put(context, place, batch, waits, may_run) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Put::Refused(batch)) => return Poll::Ready(Some(batch)),
            Poll::Ready(Put::Taken) => {}
            Poll::Ready(Put::Awaited(receiver)) if receiver.is_lent() => {
                let took = run(receiver);
                *long_runs = if took > LONG_RUN { *long_runs + 1 } else { 0 };
                *woken_until = (*long_runs >= LONG_RUNS).then(|| Instant::now() + WOKEN_FOR);
                spent.running += took;
            }
            Poll::Ready(Put::Awaited(receiver)) => {
                spent.woke = true;
                receiver.go_on();
            }
        }
        Poll::Ready(None)
    }
}

/// Runs the receiver. How long that took.
fn run(receiver: Parked<'_, Queued>) -> Duration {
    let start = Instant::now();
    receiver.go_on();
    start.elapsed()
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.mailbox.enter();
        let mut sender = Self::new(self.mailbox.clone());
        sender.place = Place::of(self.place.node());
        sender
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.mailbox.leave(&mut self.place);
    }
}
