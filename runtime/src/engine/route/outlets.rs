//! The queues that the tasks of a component feed.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use crate::engine::{
    control::Control,
    handle::{
        connection::Connection,
        status::{Bound, Relieves},
    },
    logging::losses::OverflowReason,
    queue::{Load, Queued, Sender, sender::Spent, stalled::Stalled},
    route::{
        fan_out::{count_drop, pass_on},
        haste::Haste,
    },
    tracking::{stats::Stats, token::InFlight},
};
use crate::{executor, flow::WhenFull};

/// Divisor of the number of events in the queue of a sink. The quotient is the number of events that leave at once if a
/// source waits for the sink.
const SHARE: usize = 4;

/// A queue to which a component sends events.
pub(crate) struct Outlet {
    pub(crate) queue: Sender,
    /// Name of the receiving component.
    pub(crate) name: Arc<str>,
    /// Metrics of the receiving component.
    pub(crate) stats: Arc<Stats>,
    /// Indexes of the outlets that get the batches for which this queue has no capacity. If there are none, a queue that
    /// does not let its senders wait drops these batches.
    pub(crate) overflow: Vec<usize>,
    /// The treatment of batches for which this queue has no capacity.
    pub(crate) when_full: WhenFull,
    /// `true` if the events stay on disk until the receiver has delivered them.
    pub(crate) is_stored: bool,
    /// `true` if the component sends only such batches to this queue.
    pub(crate) is_for_overflow: bool,
    /// State of the receiver, if the receiver is a sink.
    pub(crate) stalled: Arc<Stalled>,
}

/// The queues of a component.
pub(crate) struct Outlets {
    all: Vec<Outlet>,
    control: Arc<Control>,
    /// Ends waits for capacity while a reload waits for the component.
    haste: Arc<Haste>,
    /// `true` once the component sends nothing more.
    is_closed: bool,
}

/// A batch that waits for the capacity of the queue with this index.
type Late = (usize, Option<(Queued, Load)>);

impl Outlets {
    pub(crate) fn new(all: Vec<Outlet>, control: Arc<Control>) -> Self {
        Self { all, control, haste: Arc::default(), is_closed: false }
    }

    /// Returns the object that ends waits for capacity.
    pub(crate) fn haste(&self) -> &Arc<Haste> {
        &self.haste
    }

    /// Replaces the queues. Has no effect if the component sends nothing more.
    pub(crate) fn exchange(&mut self, all: Vec<Outlet>) {
        if !self.is_closed {
            self.all = all;
        }
    }

    /// Returns the waits of sources that end if queues give batches up.
    pub(crate) fn relieves(&self) -> Relieves {
        let passes_on = self.all.iter().any(|outlet| !outlet.overflow.is_empty());
        Relieves {
            pulls: passes_on,
            memory: passes_on || self.all.iter().any(|it| it.when_full.drops()),
        }
    }

    /// Drops the senders of all queues.
    pub(crate) fn clear(&mut self) {
        self.is_closed = true;
        self.all.clear();
    }

    /// Waits until each queue in turn has capacity or is closed, or until a reload waits for the component.
    pub(crate) async fn wait_for_capacity(&mut self) {
        for outlet in self.all.iter_mut().filter(|outlet| !outlet.is_for_overflow) {
            executor::first(outlet.queue.wait_for_capacity(), self.haste.begun()).await;
        }
    }

    /// Sends the batches of `ready`, each to the queue with its index: first to the queues that have capacity, and then,
    /// after a wait, to the others. The batches for one queue keep their order.
    ///
    /// If `connection`, the connection of the component, is broken, this no longer waits for capacity. The queue may be
    /// one that only the other side of the same connection empties, and the next connection begins only after this side
    /// has ended. The next connection begins to pull only [when there is capacity](Outlets::wait_for_capacity).
    ///
    /// While a reload waits for the component, batches enter queues over their limits, up to a [number](Haste::admits).
    pub(crate) async fn send(
        &mut self,
        ready: &mut VecDeque<(usize, Queued)>,
        connection: Option<&Connection>,
    ) -> Spent {
        let start = self.control.clock().now();
        let mut late: Vec<Late> = Vec::new();
        while let Some((at, queued)) = ready.pop_front() {
            let load = queued.load();
            let mut batch = Some((queued, load));
            let is_behind = late.iter().any(|(other, _)| *other == at);
            let mut offer =
                |context: &mut Context<'_>| self.offer(context, at, &mut batch, true, ready);
            if is_behind || poll_fn(|context| Poll::Ready(offer(context))).await.is_pending() {
                late.push((at, batch));
            }
        }
        let mut spent = self.take_spent();
        let sent = self.control.clock().now();
        spent.handing = (sent - start).saturating_sub(spent.running);
        if !late.is_empty() {
            self.wait(&mut late, ready, connection).await;
            let waited = self.take_spent();
            spent += waited;
            spent.waiting = self.control.clock().elapsed(sent).saturating_sub(waited.running);
        }
        spent
    }

    /// Gives up waiting deliveries of each sink that takes nothing, and batches of its queue, if the queue gives up batches
    /// for which it has no capacity. Call this if a source waits because of `bound`. Batches that would be dropped wait
    /// for no acknowledgement.
    ///
    /// At least one batch leaves, and at least the part [`SHARE`] of the events in the queue. If the sink kept all events
    /// that the limit of a source allows but one batch, the source could never have more than that batch on its way to
    /// other sinks.
    pub(crate) async fn relieve(&mut self, bound: Bound, connection: Option<&Connection>) {
        let mut ready = VecDeque::new();
        for at in 0..self.all.len() {
            let outlet = &self.all[at];
            let for_memory = bound == Bound::Memory && outlet.when_full.drops();
            let gives_up = !outlet.overflow.is_empty() || for_memory;
            if !gives_up || !outlet.stalled.is_down() {
                continue;
            }
            let mut left = outlet.queue.events() / SHARE;
            while let Some(given) = self.give_up_one(at, &mut ready) {
                if given >= left {
                    break;
                }
                left -= given;
            }
        }
        self.send(&mut ready, connection).await;
    }

    /// Gives up a waiting delivery of the sink `at` or a batch of its queue. Returns the number of its events, or `None` if
    /// there is none.
    fn give_up_one(&mut self, at: usize, ready: &mut VecDeque<(usize, Queued)>) -> Option<usize> {
        let outlet = &mut self.all[at];
        let queued = outlet.queue.events();
        // The deliveries of the sink are older than the batches in its queue.
        let newest = outlet.when_full == WhenFull::DropNewest;
        let in_queue = newest && outlet.queue.remove();
        let waiting = if in_queue { Vec::new() } else { outlet.stalled.remove(newest) };
        let is_given = in_queue || !waiting.is_empty() || outlet.queue.remove();
        let mut events = queued.saturating_sub(outlet.queue.events());
        for item in waiting {
            events += item.batch.len();
            self.pass(at, item, OverflowReason::QueueFull, ready);
        }
        self.pass_overflow(at, OverflowReason::QueueFull, ready);
        is_given.then_some(events)
    }

    /// Waits for capacity for the batches in `late`. Batches for different queues do not wait for each other.
    async fn wait(
        &mut self,
        late: &mut Vec<Late>,
        ready: &mut VecDeque<(usize, Queued)>,
        connection: Option<&Connection>,
    ) {
        let mut broken = connection.map(Connection::broken);
        let haste = self.haste.clone();
        let mut haste = haste.changes();
        let mut full = Vec::new();
        poll_fn(|context| {
            full.clear();
            let is_hasty = haste.poll(context).is_ready();
            let is_broken = broken.as_mut().is_some_and(|it| it.poll(context).is_ready());
            let mut next = 0;
            while let Some((at, _)) = late.get(next) {
                let at = *at;
                let behind = late[next + 1..].iter().filter(|(other, _)| *other == at);
                let behind =
                    behind.filter_map(|(_, batch)| batch.as_ref().map(|(_, load)| load.bytes));
                if !full.contains(&at) {
                    self.all[at].queue.set_behind(behind.sum());
                }
                let batch = &mut late[next].1;
                let waits = !(is_broken || (is_hasty && self.haste.admits()));
                if full.contains(&at) || self.offer(context, at, batch, waits, ready).is_pending() {
                    full.push(at);
                    next += 1;
                    continue;
                }
                late.remove(next);
                late.extend(ready.drain(..).map(|(at, queued)| {
                    let load = queued.load();
                    (at, Some((queued, load)))
                }));
            }
            if late.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Sends a batch to the queue `at`. Batches that have to go to other queues instead are added to `ready`.
    fn offer(
        &mut self,
        context: &Context<'_>,
        at: usize,
        batch: &mut Option<(Queued, Load)>,
        waits: bool,
        ready: &mut VecDeque<(usize, Queued)>,
    ) -> Poll<()> {
        let Some(Outlet { queue, .. }) = self.all.get_mut(at) else { return Poll::Ready(()) };
        let Poll::Ready(refused) = queue.poll_send(context, batch, waits) else {
            return Poll::Pending;
        };
        self.pass_overflow(at, OverflowReason::QueueFull, ready);
        let Some(refused) = refused else { return Poll::Ready(()) };
        // The queue returns the batch because the task of its receiver has ended.
        let Outlet { queue, stats, when_full, overflow, is_stored, .. } = &mut self.all[at];
        if when_full.drops() || !overflow.is_empty() {
            queue.add_overflow(refused);
            self.pass_overflow(at, OverflowReason::FlowEnded, ready);
        } else if !*is_stored {
            // Dropping the batch fails its events.
            stats.left(refused.left());
        }
        Poll::Ready(())
    }

    /// Drops the batches that left the queue `at` without a delivery, or adds them to `ready` for other queues.
    fn pass_overflow(
        &mut self,
        at: usize,
        why: OverflowReason,
        ready: &mut VecDeque<(usize, Queued)>,
    ) {
        for queued in self.all[at].queue.take_overflow() {
            self.all[at].stats.taken(queued.events());
            self.pass(at, queued.item, why, ready);
        }
    }

    /// Drops a batch that the receiver of the queue `at` has taken, or adds it to `ready` for other queues.
    fn pass(
        &self,
        at: usize,
        item: InFlight,
        why: OverflowReason,
        ready: &mut VecDeque<(usize, Queued)>,
    ) {
        let Outlet { name, stats, overflow, .. } = &self.all[at];
        if !overflow.is_empty() {
            return pass_on(name, overflow, item, why, stats, |at, item| {
                ready.push_back((at, item.into()));
            });
        }
        count_drop(name, item.batch.len(), why, stats, &self.control);
        item.token.settle();
    }

    fn take_spent(&mut self) -> Spent {
        let mut spent = Spent::default();
        self.all.iter_mut().for_each(|outlet| spent += outlet.queue.take_spent());
        spent
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
    };

    use tremor_pdk::Batch;

    use super::*;
    use crate::{
        clock::Clock,
        engine::{
            processors::Processors,
            queue::{Bounds, Overflow, bounded},
            tracking::token::Token,
        },
        memory::MemoryBudget,
    };

    /// Length of a message, in bytes.
    const LENGTH: usize = 1 << 20;

    fn batch() -> (usize, Queued) {
        let mut batch = Batch::new();
        batch.push_message(&vec![b'x'; LENGTH]);
        (0, InFlight::new(batch, Token::untracked()).into())
    }

    fn outlet(queue: Sender, when_full: WhenFull) -> Outlet {
        Outlet {
            queue,
            name: "out".into(),
            stats: Arc::default(),
            overflow: Vec::new(),
            when_full,
            is_stored: false,
            is_for_overflow: false,
            stalled: Arc::default(),
        }
    }

    #[test]
    fn relief_gives_up_a_quarter_and_at_least_one_batch() {
        let queue = |overflow| {
            let bounds = Bounds { events: usize::MAX, bytes: usize::MAX };
            bounded(bounds, overflow, &Processors::default(), &Clock::default())
        };
        let (full, receiver) = queue(Overflow::ReturnOldest);
        let (rest, other) = queue(Overflow::Wait);
        let full = Outlet { overflow: vec![1], ..outlet(full, WhenFull::DeadLetter) };
        full.stalled.set_down(true);
        let rest = Outlet { is_for_overflow: true, ..outlet(rest, WhenFull::Block) };
        let control = Arc::new(Control::new(Clock::default()));
        let mut outlets = Outlets::new(vec![full, rest], control);
        let mut ready: VecDeque<_> = (0..40).map(|_| batch()).collect();
        let bound = Bound::InFlight(tremor_pdk::InFlight::UNLIMITED);
        crate::executor::block_on(async {
            outlets.send(&mut ready, None).await;
            for expected in [30, 23, 18, 14, 11, 9, 7, 6, 5, 4, 3, 2, 1, 0, 0] {
                outlets.relieve(bound, None).await;
                let counts = (receiver.gauge().events(), other.gauge().events());
                assert_eq!(counts, (expected, 40 - expected));
            }
        });
    }

    #[test]
    fn memory_of_all_batches_that_wait_is_counted() {
        let clock = Clock::default();
        let bounds = Bounds { events: 1, bytes: usize::MAX };
        let (queue, mut receiver) = bounded(bounds, Overflow::Wait, &Processors::default(), &clock);
        let account = MemoryBudget::default().flow("flow").account("out");
        receiver.gauge().count_in(account.clone());
        let outlet = outlet(queue, WhenFull::Block);
        let mut outlets = Outlets::new(vec![outlet], Arc::new(Control::new(clock)));
        let mut context = Context::from_waker(Waker::noop());
        let mut ready: VecDeque<_> = (0..4).map(|_| batch()).collect();
        let mut sending = pin!(outlets.send(&mut ready, None));
        for left in (1..=4).rev() {
            let is_pending = sending.as_mut().poll(&mut context).is_pending();
            assert_eq!((account.used() / LENGTH, is_pending), (left, left > 1));
            assert!(receiver.poll_receive(&context).is_ready());
        }
        assert_eq!(account.used() / LENGTH, 0);
    }
}
