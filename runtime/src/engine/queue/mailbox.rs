//! The mailbox of a task: what is queued for it, and the task itself while it waits for that.
//!
//! To wake a task costs the system a wake-up of a thread, often on a processor that sleeps, or on the
//! one that is busy with the sender. A sender whose item leaves the task little to do therefore runs the
//! task itself, on the spot, for a few items at most.
//!
//! All of it is one state under one lock, which is not held while the task runs.

use std::{
    any::Any,
    collections::VecDeque,
    ops::{AddAssign, SubAssign},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Instant,
};

use crate::engine::{
    queue::Bounds,
    sync::{
        gauge::{Gauge, Queue},
        wakers::{self, Place, Wakers},
    },
    tuning::BATCHES_FOR_ANOTHER,
};

/// A bounded queue with the task that empties it.
pub(crate) struct Mailbox<T> {
    bounds: Bounds,
    state: Mutex<State<T>>,
    gauge: Gauge,
}

struct State<T> {
    items: VecDeque<(T, Load)>,
    load: Load,
    senders: usize,
    /// Nothing is taken out any more.
    is_closed: bool,
    /// The waker of the task, while it waits for an item.
    parked: Option<Waker>,
    task: Task,
    /// Senders that wait for room.
    waiting: Wakers,
    /// Memory of the items that these senders wait with, in bytes.
    waiting_bytes: usize,
    waits: Waits,
}

/// The nodes of the flow whose senders wait for capacity. Only a sender that begins to wait changes this.
#[derive(Default)]
struct Waits {
    /// Round of [`Wakers`] that the waits belong to. In a later round they are over.
    round: u64,
    since: Vec<(u32, Instant)>,
}

/// What an item counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// The task of a mailbox, and what runs it.
enum Task {
    /// There is none that senders could run.
    Absent,
    /// Nothing does.
    Idle(Run),
    /// The executor.
    Running,
    /// A sender, for so many items more.
    Lent {
        left: usize,
        /// The executor is to go on with it.
        wanted: bool,
    },
}

/// A task, with its result left elsewhere.
type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What became of an item.
pub(super) enum Put<'m, T> {
    /// It is in the mailbox, and its task at work.
    Taken,
    /// The task waits for it.
    Awaited(Parked<'m, T>),
    /// Nothing is taken out any more.
    Refused(T),
}

/// A task that waited for what was put in. It is to be woken, or run.
pub(super) struct Parked<'m, T> {
    mailbox: &'m Mailbox<T>,
    waker: Waker,
    task: Option<Run>,
}

impl<T> Mailbox<T> {
    /// An empty mailbox, with one sender.
    pub(super) fn new(bounds: Bounds) -> Self {
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
        Self { bounds, state: Mutex::new(state), gauge: Gauge::default() }
    }

    /// Puts an item in, once there is room for it, or at once where it is not to wait. Where the task
    /// may be run by the sender, and waits, it is lent. While the sender waits, the memory of the item is counted.
    pub(super) fn poll_put(
        &self,
        context: &Context<'_>,
        place: &mut Place,
        item: &mut Option<(T, Load)>,
        waits: bool,
        may_run: bool,
    ) -> Poll<Put<'_, T>> {
        let mut state = self.lock();
        let load = item.as_ref().map_or_else(Load::default, |(_, load)| *load);
        if waits && !state.has_room(self.bounds, load) {
            state.wait(place, context.waker());
            if place.bytes != load.bytes {
                state.waiting_bytes += load.bytes;
                state.waiting_bytes -= std::mem::replace(&mut place.bytes, load.bytes);
                self.show(&state);
            }
            return Poll::Pending;
        }
        state.waiting_bytes -= std::mem::take(&mut place.bytes);
        let Some((item, load)) = item.take() else { return Poll::Ready(Put::Taken) };
        if state.is_closed {
            return Poll::Ready(Put::Refused(item));
        }
        state.items.push_back((item, load));
        state.load += load;
        let waker = state.parked.take();
        let task = if may_run && waker.is_some() { state.lend() } else { None };
        self.show(&state);
        drop(state);
        Poll::Ready(match waker {
            Some(waker) => Put::Awaited(Parked { mailbox: self, waker, task }),
            None => Put::Taken,
        })
    }

    /// Ready once an item may go in, or would be refused.
    pub(super) fn poll_room(&self, context: &Context<'_>, place: &mut Place) -> Poll<()> {
        let mut state = self.lock();
        if state.has_room(self.bounds, Load::default()) {
            return Poll::Ready(());
        }
        state.wait(place, context.waker());
        Poll::Pending
    }

    /// Returns the nodes whose senders wait for capacity, each with the start of the wait. An item that is
    /// taken out ends all waits: a sender for which there is still no capacity begins another.
    pub(super) fn waiting(&self) -> Vec<(u32, Instant)> {
        let state = self.lock();
        let is_current = state.waits.round == state.waiting.round() && !state.is_closed;
        if is_current { state.waits.since.clone() } else { Vec::new() }
    }

    /// Takes the next item out; none once nothing will come any more. Senders that are to be woken are
    /// left in `woken`.
    pub(super) fn poll_take(
        &self,
        context: &Context<'_>,
        woken: &mut Vec<Option<Waker>>,
    ) -> Poll<Option<T>> {
        let mut state = self.lock();
        if state.items.is_empty() {
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.parked = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Task::Lent { left, wanted } = &mut state.task {
            if *left == 0 {
                *wanted = true;
                return Poll::Pending;
            }
            *left -= 1;
        }
        let item = state.pop();
        state.waiting.take(woken);
        self.show(&state);
        Poll::Ready(item)
    }

    /// Ready once the mailbox is empty and nothing will come any more.
    pub(super) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.senders == 0 && state.items.is_empty() {
            return Poll::Ready(());
        }
        state.parked = Some(context.waker().clone());
        Poll::Pending
    }

    /// Another sender.
    pub(super) fn enter(&self) {
        self.lock().senders += 1;
    }

    /// A sender is gone.
    pub(super) fn leave(&self, place: &mut Place) {
        let mut state = self.lock();
        state.waiting_bytes -= std::mem::take(&mut place.bytes);
        if place.is_taken() {
            state.waits.since.retain(|(node, _)| *node != place.node());
        }
        state.waiting.leave(place);
        state.senders -= 1;
        self.show(&state);
        let waker = if state.senders == 0 { state.parked.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Nothing is taken out any more, and nothing goes in. Says how many events are left in it.
    pub(super) fn close(&self) -> usize {
        let mut woken = Vec::new();
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.take(&mut woken);
        self.show(&state);
        let events = state.load.events;
        drop(state);
        wakers::wake(&mut woken);
        events
    }

    /// What is left in it, to be dropped.
    pub(super) fn clear(&self) -> VecDeque<(T, Load)> {
        std::mem::take(&mut self.lock().items)
    }

    /// Whether there is no room.
    pub(super) fn is_full(&self) -> bool {
        !self.lock().has_room(self.bounds, Load::default())
    }

    /// Whether a sender runs the task.
    #[cfg(test)]
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.lock().task, Task::Lent { .. })
    }

    /// What is in it, told from anywhere.
    pub(super) fn gauge(&self) -> Gauge {
        self.gauge.clone()
    }

    fn show(&self, state: &State<T>) {
        let Load { events, bytes } = state.load;
        self.gauge.set(Queue { events, bytes }, state.waiting_bytes);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Whether an item need not wait. One that is too large by itself goes in alone.
    fn has_room(&self, bounds: Bounds, item: Load) -> bool {
        let fits = self.items.is_empty() || self.load.bytes + item.bytes <= bounds.bytes;
        let is_full = self.load.events >= bounds.events || self.load.bytes >= bounds.bytes;
        self.is_closed || (fits && !is_full)
    }

    /// Has a sender woken once there may be capacity.
    fn wait(&mut self, place: &mut Place, waker: &Waker) {
        self.waiting.wait(place, waker);
        let Waits { round, since } = &mut self.waits;
        if *round != self.waiting.round() {
            *round = self.waiting.round();
            since.clear();
        }
        if since.iter().all(|(node, _)| *node != place.node()) {
            since.push((place.node(), Instant::now()));
        }
    }

    fn pop(&mut self) -> Option<T> {
        let (item, load) = self.items.pop_front()?;
        self.load -= load;
        Some(item)
    }

    /// The task, if nothing runs it: a sender does from now on.
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
    /// Whether the sender may run the task.
    pub(super) fn is_lent(&self) -> bool {
        self.task.is_some()
    }

    /// Runs the task as far as it gets, or wakes it where it was not lent.
    pub(super) fn go_on(self) {
        let Self { mailbox, waker, task } = self;
        let Some(mut run) = task else { return waker.wake() };
        let has_ended = run.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = mailbox.lock();
        let Task::Lent { wanted, .. } = state.task else { return };
        state.task = if has_ended { Task::Absent } else { Task::Idle(run) };
        mailbox.show(&state);
        drop(state);
        if wanted || has_ended {
            waker.wake();
        }
    }
}

/// The task of a mailbox, as the executor has it.
pub(crate) struct Host<T, R> {
    mailbox: Arc<Mailbox<T>>,
    /// Left by the task, whatever runs it.
    result: Arc<Mutex<Option<std::thread::Result<R>>>>,
}

impl<T, R: Send + 'static> Host<T, R> {
    /// Has the mailbox's task run on the executor, and by senders where that is better. A panic is the
    /// task's own, whatever runs it.
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
            *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            Poll::Ready(())
        });
        let mut state = mailbox.lock();
        // It is run by senders once it has waited: the waker of a task before it is not its own.
        state.parked = None;
        state.task = Task::Idle(Box::pin(run));
        drop(state);
        Self { mailbox, result }
    }

    fn result(&self) -> R {
        match self.result.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("the task has left its result, and is polled no more"),
        }
    }
}

impl<T, R: Send + 'static> Future for Host<T, R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let mut state = self.mailbox.lock();
        let mut run = match std::mem::replace(&mut state.task, Task::Running) {
            Task::Idle(run) => run,
            Task::Lent { left, .. } => {
                state.task = Task::Lent { left, wanted: true };
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
            self.mailbox.lock().task = Task::Idle(run);
            return Poll::Pending;
        }
        self.mailbox.lock().task = Task::Absent;
        Poll::Ready(self.result())
    }
}

impl<T, R> Drop for Host<T, R> {
    /// The task has the other end of the mailbox: neither is to keep the other.
    fn drop(&mut self) {
        let task = std::mem::replace(&mut self.mailbox.lock().task, Task::Absent);
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
