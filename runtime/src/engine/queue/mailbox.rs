//! The mailbox of a task: the queue of its items, and the task itself while it waits for an item.
//!
//! To wake a task means to wake a thread, often on a processor that sleeps or on the processor that is busy with the
//! sender. If the item gives the task little work, the sender therefore runs the task itself, for a few items at most.
//!
//! The queue and the task are one state under one lock. The lock is released while the task runs.

use std::{
    any::Any,
    collections::VecDeque,
    ops::{AddAssign, SubAssign},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::clock::Clock;
use crate::engine::{
    queue::Bounds,
    sync::{
        gauge::{Gauge, Queue},
        wakers::{self, WakerSlot, Wakers},
    },
    tuning::BATCHES_FOR_ANOTHER,
};
use crate::sync::{Arc, Mutex, fault, lock};

/// A bounded queue with the task that empties it.
pub(crate) struct Mailbox<T> {
    bounds: Bounds,
    overflow: Overflow,
    clock: Clock,
    state: Mutex<State<T>>,
    gauge: Gauge,
}

struct State<T> {
    items: VecDeque<(T, Load)>,
    load: Load,
    senders: usize,
    /// `true` once the mailbox is closed: no more items are taken out.
    is_closed: bool,
    /// The waker of the task, while it waits for an item.
    parked: Option<Waker>,
    task: Task,
    /// Senders that wait for capacity.
    waiting: Wakers,
    /// Memory of the items of waiting senders, in bytes.
    waiting_bytes: usize,
    waits: Waits,
}

/// The nodes of the flow whose senders wait for capacity. Updated only when a sender begins to wait or is dropped.
#[derive(Default)]
struct Waits {
    /// Round of [`Wakers`] in which the waits began. In a later round, these waits have ended.
    round: u64,
    /// Nodes, each with the start of its wait.
    since: Vec<(u32, Instant)>,
}

/// The treatment of items for which a mailbox has no capacity. Items that were taken out are never affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The sender waits.
    #[default]
    Wait,
    /// The sender gets the item back.
    ReturnNewest,
    /// The sender gets the items that have waited longest, as many as have to leave.
    ReturnOldest,
}

/// The part of a queue's limits that an item uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// The task of a mailbox, with the information which thread runs it.
enum Task {
    /// Senders cannot run a task, because the task has no [`Host`] or has ended.
    Absent,
    /// No thread runs the task.
    Idle(Run),
    /// The executor runs the task.
    Running,
    /// A sender runs the task.
    Lent {
        /// Number of items that the task may still take during this loan.
        left: usize,
        /// `true` if the executor has to run the task after the loan.
        wanted: bool,
    },
}

/// A task that stores its result in its [`Host`].
type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Outcome of putting an item into a mailbox.
pub(super) enum Put<'m, T> {
    /// The item is in the mailbox. The task is running, or is going to run.
    Taken,
    /// The item is in the mailbox, and the task was waiting for it.
    Awaited(Parked<'m, T>),
    /// The mailbox is closed. Contains the item.
    Refused(T),
    /// The mailbox is full. Contains the item.
    Full(T),
}

/// A task that was waiting for an item that has arrived. The sender has to call [`Parked::run_or_wake`].
pub(super) struct Parked<'m, T> {
    mailbox: &'m Mailbox<T>,
    waker: Waker,
    /// The task, if it is lent to the sender.
    task: Option<Run>,
}

impl<T> Mailbox<T> {
    /// Creates an empty mailbox with one sender.
    pub(super) fn new(bounds: Bounds, overflow: Overflow, clock: Clock) -> Self {
        let state = State {
            items: VecDeque::new(),
            load: Load::default(),
            senders: 1,
            is_closed: false,
            parked: None,
            task: Task::Absent,
            waiting: Wakers::default(),
            waiting_bytes: 0,
            waits: Waits::default(),
        };
        Self { bounds, overflow, clock, state: Mutex::new(state), gauge: Gauge::default() }
    }

    /// Returns the clock by which waits are measured.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Puts an item into the mailbox. If `waits` is set and senders of this mailbox wait for capacity, this waits, and
    /// the memory of the item and of those behind it is counted meanwhile. If `may_run` is set and the task is waiting, the task is lent to the
    /// sender. Items that had to leave are moved to `removed`, so that they are dropped without the lock.
    pub(super) fn poll_put(
        &self,
        context: &Context<'_>,
        slot: &mut WakerSlot,
        item: &mut Option<(T, Load)>,
        (waits, may_run): (bool, bool),
        removed: &mut Vec<T>,
    ) -> Poll<Put<'_, T>> {
        let mut state = lock(&self.state);
        let load = item.as_ref().map_or_else(Load::default, |(_, load)| *load);
        if !state.has_capacity(self.bounds, load) {
            match self.overflow {
                Overflow::Wait if waits => {
                    state.wait(slot, context.waker(), &self.clock);
                    let bytes = load.bytes + slot.behind;
                    if slot.bytes != bytes {
                        state.waiting_bytes += bytes;
                        state.waiting_bytes -= std::mem::replace(&mut slot.bytes, bytes);
                        self.update_gauge(&state);
                    }
                    return Poll::Pending;
                }
                Overflow::Wait => {}
                Overflow::ReturnNewest => {
                    return Poll::Ready(
                        item.take().map_or(Put::Taken, |(item, _)| Put::Full(item)),
                    );
                }
                Overflow::ReturnOldest if fault("mailbox_drops_what_was_handed_out") => {
                    // The first item is to leave, but another task may take it out meanwhile.
                    drop(state);
                    state = lock(&self.state);
                    removed.extend(state.pop());
                }
                Overflow::ReturnOldest => {
                    while !state.has_capacity(self.bounds, load)
                        && let Some(oldest) = state.pop()
                    {
                        removed.push(oldest);
                    }
                }
            }
        }
        state.waiting_bytes -= std::mem::take(&mut slot.bytes);
        let Some((item, load)) = item.take() else { return Poll::Ready(Put::Taken) };
        if state.is_closed {
            return Poll::Ready(Put::Refused(item));
        }
        state.items.push_back((item, load));
        state.load += load;
        let waker = state.parked.take();
        let task = if may_run && waker.is_some() { state.lend() } else { None };
        self.update_gauge(&state);
        drop(state);
        Poll::Ready(match waker {
            Some(waker) => Put::Awaited(Parked { mailbox: self, waker, task }),
            None => Put::Taken,
        })
    }

    /// Removes and returns an item, unless the mailbox is closed: the newest if a full mailbox returns the newest, and
    /// otherwise the one that has waited longest.
    pub(super) fn remove(&self) -> Option<T> {
        let mut state = lock(&self.state);
        let last = state.items.len().saturating_sub(1);
        let at = if self.overflow == Overflow::ReturnNewest { last } else { 0 };
        let (item, load) = if state.is_closed { None } else { state.items.remove(at) }?;
        state.load -= load;
        self.update_gauge(&state);
        Some(item)
    }

    /// Completes once a sender would not have to wait.
    pub(super) fn poll_capacity(&self, context: &Context<'_>, slot: &mut WakerSlot) -> Poll<()> {
        let mut state = lock(&self.state);
        if self.overflow != Overflow::Wait || state.has_capacity(self.bounds, Load::default()) {
            return Poll::Ready(());
        }
        state.wait(slot, context.waker(), &self.clock);
        Poll::Pending
    }

    /// Returns the nodes whose senders wait for capacity, each with the start of the wait. Taking out an item ends all
    /// waits. A sender for which the capacity is still too small begins a new wait.
    pub(super) fn waiting(&self) -> Vec<(u32, Instant)> {
        let state = lock(&self.state);
        let is_current = state.waits.round == state.waiting.round() && !state.is_closed;
        if is_current { state.waits.since.clone() } else { Vec::new() }
    }

    /// Takes the next item out. Completes with `None` once the mailbox is empty and has no sender. The wakers of
    /// waiting senders are moved to `woken`, which must be empty; the caller wakes them.
    pub(super) fn poll_take(
        &self,
        context: &Context<'_>,
        woken: &mut Vec<Option<Waker>>,
    ) -> Poll<Option<T>> {
        let mut state = lock(&self.state);
        if state.items.is_empty() {
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.parked = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Task::Lent { left, wanted } = &mut state.task {
            if *left == 0 {
                *wanted |= !fault("mailbox_pauses_task_without_wake");
                return Poll::Pending;
            }
            *left -= 1;
        }
        let item = state.pop();
        if !fault("mailbox_frees_capacity_without_wake") {
            state.waiting.take(woken);
        }
        self.update_gauge(&state);
        Poll::Ready(item)
    }

    /// Completes once the mailbox is empty and has no sender.
    pub(super) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.senders == 0 && state.items.is_empty() {
            return Poll::Ready(());
        }
        state.parked = Some(context.waker().clone());
        Poll::Pending
    }

    /// Returns whether there is a sender.
    pub(super) fn has_senders(&self) -> bool {
        lock(&self.state).senders > 0
    }

    /// Counts another sender.
    pub(super) fn add_sender(&self) {
        lock(&self.state).senders += 1;
    }

    /// Removes a sender with its registration in `slot`. Wakes the task if this was the last sender.
    pub(super) fn remove_sender(&self, slot: &mut WakerSlot) {
        let mut state = lock(&self.state);
        state.waiting_bytes -= std::mem::take(&mut slot.bytes);
        if slot.may_wait() {
            state.waits.since.retain(|(node, _)| *node != slot.node());
        }
        state.waiting.leave(slot);
        state.senders -= 1;
        self.update_gauge(&state);
        let waker = if state.senders == 0 { state.parked.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Closes the mailbox: items are neither accepted nor taken out any more. Returns the number of remaining events.
    pub(super) fn close(&self) -> usize {
        let mut woken = Vec::new();
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.waiting.take(&mut woken);
        self.update_gauge(&state);
        let events = state.load.events;
        drop(state);
        wakers::wake(&mut woken);
        events
    }

    /// Removes and returns the remaining items, so that they can be dropped without the lock.
    pub(super) fn clear(&self) -> VecDeque<(T, Load)> {
        std::mem::take(&mut lock(&self.state).items)
    }

    /// Returns a gauge of the mailbox's size.
    pub(super) fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    fn update_gauge(&self, state: &State<T>) {
        let Load { events, bytes } = state.load;
        self.gauge.set(Queue { events, bytes }, state.waiting_bytes);
    }
}

impl<T> State<T> {
    /// Returns whether `item` can be put in without waiting. An item that exceeds the limits by itself can be put
    /// into an empty mailbox. A closed mailbox makes no sender wait.
    fn has_capacity(&self, bounds: Bounds, item: Load) -> bool {
        let fits = self.items.is_empty() || self.load.bytes + item.bytes <= bounds.bytes;
        let is_full = self.load.events >= bounds.events || self.load.bytes >= bounds.bytes;
        self.is_closed || (fits && !is_full)
    }

    /// Registers a sender to be woken when an item is taken out, and records the start of its node's wait.
    fn wait(&mut self, slot: &mut WakerSlot, waker: &Waker, clock: &Clock) {
        self.waiting.wait(slot, waker);
        let Waits { round, since } = &mut self.waits;
        if *round != self.waiting.round() {
            *round = self.waiting.round();
            since.clear();
        }
        if since.iter().all(|(node, _)| *node != slot.node()) {
            since.push((slot.node(), clock.now()));
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (item, load) = self.items.pop_front()?;
        self.load -= load;
        Some(item)
    }

    /// Lends the task to a sender, if no thread runs it.
    fn lend(&mut self) -> Option<Run> {
        let lent = Task::Lent { left: BATCHES_FOR_ANOTHER, wanted: false };
        match std::mem::replace(&mut self.task, lent) {
            Task::Idle(run) => Some(run),
            other => {
                self.task = other;
                None
            }
        }
    }
}

impl<T> Parked<'_, T> {
    /// Returns whether the task is lent to the sender, so that [`Parked::run_or_wake`] runs it.
    pub(super) fn is_lent(&self) -> bool {
        self.task.is_some()
    }

    /// Polls the task once if it is lent to the sender, and otherwise wakes it.
    pub(super) fn run_or_wake(self) {
        let Self { mailbox, waker, task } = self;
        let Some(mut run) = task else { return waker.wake() };
        let has_ended = run.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = lock(&mailbox.state);
        let wanted = match state.task {
            Task::Lent { wanted, .. } => wanted,
            _ if fault("mailbox_keeps_dropped_task") => false,
            _ => return,
        };
        state.task = if has_ended { Task::Absent } else { Task::Idle(run) };
        mailbox.update_gauge(&state);
        drop(state);
        if wanted || (has_ended && !fault("mailbox_ends_task_without_wake")) {
            waker.wake();
        }
    }
}

/// The future with which the executor runs the task of a mailbox.
///
/// The task itself is stored in the mailbox, so that senders can run it too.
pub(crate) struct Host<T, R> {
    mailbox: Arc<Mailbox<T>>,
    /// Result of the task, which is stored here by the thread that ran the task to its end.
    result: Arc<Mutex<Option<std::thread::Result<R>>>>,
}

impl<T, R: Send + 'static> Host<T, R> {
    /// Makes `future` the task of the mailbox. If the task panics, the panic is caught and resumed by this `Host`, even
    /// if a sender was running the task.
    pub(crate) fn new(
        mailbox: Arc<Mailbox<T>>,
        future: impl Future<Output = R> + Send + 'static,
    ) -> Self {
        let result = Arc::new(Mutex::new(None));
        let left = result.clone();
        let mut future = Box::pin(future);
        let run = std::future::poll_fn(move |context| {
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
            let result: Result<R, Box<dyn Any + Send>> = match polled {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(result)) => Ok(result),
                Err(panic) => Err(panic),
            };
            *lock(&left) = Some(result);
            Poll::Ready(())
        });
        let mut state = lock(&mailbox.state);
        // Senders may run the task only after it has waited for the first time. Until then, the mailbox may contain the
        // waker of an earlier task.
        if !fault("mailbox_keeps_previous_waker") {
            state.parked = None;
        }
        state.task = Task::Idle(Box::pin(run));
        drop(state);
        Self { mailbox, result }
    }

    fn result(&self) -> R {
        match lock(&self.result).take() {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("the task stored its result before it ended"),
        }
    }
}

impl<T, R: Send + 'static> Future for Host<T, R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let mut state = lock(&self.mailbox.state);
        let mut run = match std::mem::replace(&mut state.task, Task::Running) {
            Task::Idle(run) => run,
            Task::Lent { left, .. } => {
                state.task = Task::Lent { left, wanted: !fault("mailbox_forgets_executor") };
                return Poll::Pending;
            }
            Task::Absent | Task::Running => {
                state.task = Task::Absent;
                drop(state);
                return Poll::Ready(self.result());
            }
        };
        drop(state);
        if run.as_mut().poll(context).is_pending() {
            lock(&self.mailbox.state).task = Task::Idle(run);
            return Poll::Pending;
        }
        lock(&self.mailbox.state).task = Task::Absent;
        Poll::Ready(self.result())
    }
}

impl<T, R> Drop for Host<T, R> {
    /// Drops the task. The task owns the receiving half of the mailbox, so otherwise the task and the mailbox would
    /// keep each other alive.
    fn drop(&mut self) {
        let task = std::mem::replace(&mut lock(&self.mailbox.state).task, Task::Absent);
        drop(task);
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.events -= other.events;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests;
