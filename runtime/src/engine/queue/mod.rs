//! The bounded queue between two tasks: of batches, by events and by bytes.
//!
//! A full queue makes its senders wait; that is the whole of backpressure. So does one that would
//! exceed its bytes with the next batch; a batch that exceeds them by itself passes alone, so that
//! no message is too large to pass at all.

#[doc(hidden)]
pub mod hand_over;
pub(crate) mod shared_task;

use std::{
    collections::VecDeque,
    future::poll_fn,
    ops::AddAssign,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tremor_pdk::{Batch, abi::batch::Rejected};

use crate::engine::{
    account::token::InFlight,
    life::{
        connection::Connection,
        standing::Gauge,
        wakers::{self, Place, Wakers},
    },
    queue::shared_task::SharedTask,
    spin::{Spin, Working},
    tuning::{LONG_RUN, LONG_RUNS, QUEUE_BYTES, QUEUE_EVENTS, WOKEN_FOR},
};

/// How much a queue holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// In events.
    pub events: usize,
    /// In bytes: payloads, documents, edited values and the events themselves.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { events: QUEUE_EVENTS, bytes: QUEUE_BYTES }
    }
}

/// What goes through a queue.
pub(crate) struct Queued {
    pub(crate) item: InFlight,
    pub(crate) payload: Payload,
}

/// What has been done to a batch, and what whoever takes it has to do.
pub(crate) enum Payload {
    /// Its events are values.
    Values,
    /// Its events are values, and encoded already.
    Encoded {
        encoded: Batch,
        /// Those that could not be.
        rejected: Vec<Rejected>,
    },
}

impl From<InFlight> for Queued {
    fn from(item: InFlight) -> Self {
        Self { item, payload: Payload::Values }
    }
}

impl Queued {
    /// How many events there are to account for.
    pub(crate) fn events(&self) -> usize {
        let rejected = match &self.payload {
            Payload::Encoded { rejected, .. } => rejected.len(),
            Payload::Values => 0,
        };
        self.item.batch.len() + rejected
    }

    fn bytes(&self) -> usize {
        let encoded = match &self.payload {
            Payload::Encoded { encoded, .. } => encoded.weight(),
            Payload::Values => 0,
        };
        self.item.batch.weight() + encoded
    }
}

struct State {
    /// Each with its weight in bytes.
    batches: VecDeque<(Queued, usize)>,
    events: usize,
    bytes: usize,
    senders: usize,
    receiver_gone: bool,
    receiver: Option<Waker>,
    waiting: Wakers,
}

impl State {
    /// Whether there is something for the receiver: a batch, or the end.
    fn has_news(&self) -> bool {
        !self.batches.is_empty() || self.senders == 0
    }

    fn push(&mut self, batch: Queued, bytes: usize) {
        self.events += batch.events();
        self.bytes += bytes;
        self.batches.push_back((batch, bytes));
    }

    fn pop(&mut self) -> Option<Queued> {
        let (batch, bytes) = self.batches.pop_front()?;
        self.events -= batch.events();
        self.bytes -= bytes;
        Some(batch)
    }

    /// Whether every sender has to wait.
    fn is_full(&self, bounds: Bounds) -> bool {
        !self.receiver_gone && (self.events >= bounds.events || self.bytes >= bounds.bytes)
    }

    /// Whether there is room for a batch of so many bytes.
    fn has_room(&self, bounds: Bounds, bytes: usize) -> bool {
        let fits = self.batches.is_empty() || self.bytes + bytes <= bounds.bytes;
        !self.is_full(bounds) && fits
    }
}

struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
    /// What the state says, for those who wait on the processor. Written under the lock.
    has_news: AtomicBool,
    is_full: AtomicBool,
    gauge: Gauge,
    /// Where the receiver runs, if others may run it.
    task: Arc<SharedTask>,
}

impl Shared {
    /// Shows what the state says now.
    fn show(&self, state: &State) {
        self.has_news.store(state.has_news(), Ordering::Release);
        self.is_full.store(state.is_full(self.bounds), Ordering::Release);
        self.gauge.set(state.events);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that batches go into. The queue closes with its last sender.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    /// Among those who wait for room.
    place: Place,
    spin: Spin,
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
    /// Waiting for a turn that another task had.
    pub(crate) turn: Duration,
    /// Whether a receiver was parked, and had to be woken.
    pub(crate) woke: bool,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.handing += other.handing;
        self.running += other.running;
        self.turn += other.turn;
        self.woke |= other.woke;
    }
}

/// The end that batches come out of.
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    spin: Spin,
    /// Whether there is so much to do with a batch that it takes a processor, and is worth waiting
    /// for on one. Who sends what is encoded already leaves so little that its own processor is the
    /// best place for it.
    working: Option<Working>,
    /// Senders that are to be woken. Empty between calls.
    woken: Vec<Option<Waker>>,
}

/// A queue.
pub(crate) fn bounded(bounds: Bounds) -> (Sender, Receiver) {
    let state = State {
        batches: VecDeque::new(),
        events: 0,
        bytes: 0,
        senders: 1,
        receiver_gone: false,
        receiver: None,
        waiting: Wakers::default(),
    };
    let (has_news, is_full) = (AtomicBool::new(false), AtomicBool::new(false));
    let (state, gauge, task) = (Mutex::new(state), Gauge::default(), Arc::default());
    let shared = Arc::new(Shared { bounds, state, has_news, is_full, gauge, task });
    let sender = Sender::new(shared.clone());
    (sender, Receiver { shared, spin: Spin::default(), working: None, woken: Vec::new() })
}

impl Sender {
    fn new(shared: Arc<Shared>) -> Self {
        let (place, spin, spent) = (Place::default(), Spin::default(), Spent::default());
        Self { shared, place, spin, spent, long_runs: 0, woken_until: None }
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
        let bytes = batch.bytes();
        let mut batch = Some((batch, bytes));
        let start = Instant::now();
        let is_full = self.shared.is_full.load(Ordering::Acquire);
        if is_full {
            self.spin.wait(|| !self.shared.is_full.load(Ordering::Acquire));
        }
        let mut broken = connection.map(Connection::broken);
        poll_fn(|context| {
            let polled = self.poll_send(context, &mut batch, false);
            let mut is_broken = || broken.as_mut().is_some_and(|it| it.poll(context).is_ready());
            if polled.is_ready() || !is_broken() {
                return polled;
            }
            self.poll_send(context, &mut batch, true)
        })
        .await;
        let end = Instant::now();
        self.spin.passed(end);
        let spent = end.saturating_duration_since(start).saturating_sub(self.spent.running);
        if is_full {
            self.spent.waiting += spent;
        } else {
            self.spent.handing += spent;
        }
        batch.map(|(batch, _)| batch)
    }

    /// Waits until a batch may go in, or would be given back.
    pub(crate) async fn room(&mut self) {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            if state.receiver_gone || !state.is_full(self.shared.bounds) {
                return Poll::Ready(());
            }
            state.waiting.wait(&mut self.place, context.waker());
            Poll::Pending
        })
        .await;
    }

    /// What this end has spent its time on since this was last asked.
    pub(crate) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    fn poll_send(
        &mut self,
        context: &Context<'_>,
        batch: &mut Option<(Queued, usize)>,
        is_broken: bool,
    ) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.receiver_gone {
            return Poll::Ready(());
        }
        let bytes = batch.as_ref().map_or(0, |(_, bytes)| *bytes);
        let has_room = state.has_room(self.shared.bounds, bytes);
        if !has_room && !is_broken {
            state.waiting.wait(&mut self.place, context.waker());
            return Poll::Pending;
        }
        let mut is_encoded = false;
        if let Some((batch, bytes)) = batch.take() {
            is_encoded = matches!(batch.payload, Payload::Encoded { .. });
            state.push(batch, bytes);
        }
        self.shared.show(&state);
        let receiver = state.receiver.take();
        drop(state);
        if let Some(waker) = receiver
            && !(is_encoded && self.run_receiver())
        {
            self.spent.woke = true;
            waker.wake();
        }
        Poll::Ready(())
    }

    /// Runs the receiver, which waits; `false` where it is to be woken.
    fn run_receiver(&mut self) -> bool {
        let start = Instant::now();
        if self.woken_until.is_some_and(|until| start < until) {
            return false;
        }
        let ran = self.shared.task.run_here();
        let took = start.elapsed();
        self.long_runs = if took > LONG_RUN { self.long_runs + 1 } else { 0 };
        self.woken_until = (self.long_runs >= LONG_RUNS).then(|| start + took + WOKEN_FOR);
        self.spent.running += took;
        ran
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.shared.lock().senders += 1;
        Self::new(self.shared.clone())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.waiting.leave(&mut self.place);
        state.senders -= 1;
        self.shared.show(&state);
        let receiver = if state.senders == 0 { state.receiver.take() } else { None };
        drop(state);
        if let Some(waker) = receiver {
            waker.wake();
        }
    }
}

impl Receiver {
    /// The next batch; `None` once the queue is closed and empty.
    pub(crate) fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<Queued>> {
        let task = &self.shared.task;
        if !task.may_go_on() {
            // Its own task goes on.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let has_news = || self.shared.has_news.load(Ordering::Acquire);
        if self.working.is_some() && !has_news() && !task.is_run_by_another() {
            self.spin.wait(has_news);
        }
        let received = self.take(context);
        if let Poll::Ready(Some(queued)) = &received {
            match queued.payload {
                Payload::Values => _ = self.working.get_or_insert_with(Working::enter),
                Payload::Encoded { .. } => self.working = None,
            }
        }
        if received.is_ready() {
            self.spin.passed(Instant::now());
        }
        received
    }

    fn take(&mut self, context: &Context<'_>) -> Poll<Option<Queued>> {
        let mut state = self.shared.lock();
        let Some(batch) = state.pop() else {
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            state.receiver = Some(context.waker().clone());
            return Poll::Pending;
        };
        self.shared.show(&state);
        state.waiting.take(&mut self.woken);
        drop(state);
        wakers::wake(&mut self.woken);
        Poll::Ready(Some(batch))
    }
}

impl Receiver {
    /// Where to run whoever has this end, so that senders may run it.
    pub(crate) fn shared_task(&self) -> Arc<SharedTask> {
        self.shared.task.clone()
    }

    /// Ready once nobody can put anything in, and nothing is in it.
    pub(crate) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        if state.senders == 0 && state.batches.is_empty() {
            return Poll::Ready(());
        }
        state.receiver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Tells how much is in the queue, from anywhere.
    pub(crate) fn gauge(&self) -> Gauge {
        self.shared.gauge.clone()
    }

    /// Nothing is taken out for now: no processor is needed for that.
    pub(crate) fn rest(&mut self) {
        self.working = None;
    }

    #[cfg(test)]
    pub(crate) fn is_full(&self) -> bool {
        self.shared.is_full.load(Ordering::Acquire)
    }

    /// Takes nothing more; says how many events were still in the queue.
    pub(crate) fn close(self) -> usize {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        self.shared.show(&state);
        state.events
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        self.shared.show(&state);
        let batches = std::mem::take(&mut state.batches);
        state.waiting.take(&mut self.woken);
        drop(state);
        drop(batches);
        wakers::wake(&mut self.woken);
    }
}

#[cfg(test)]
mod tests;
