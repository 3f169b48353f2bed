//! The sink of a queue on disk: appends batches in the order in which they arrive, and answers when they are durable.
//!
//! Several deliveries are in flight, so that one sync makes the records of all of them durable.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_log::{Appender, NotDurable, Reason, Refused};
use tremor_pdk::{Batch, Demand, Error, ErrorPolicy, Exception, Grant, Result, lock};

use super::{
    full::{Capacity, Relief, Reliever},
    opened::OpenQueue,
    record::{NewRecord, RecordWriter, Written},
};
use crate::dynamic::{BoxFuture, DynSink};
use crate::engine::control::Phase;
use crate::memory::Charge;

/// Number of deliveries in flight. A commit contains at most this number of batches.
const IN_FLIGHT: usize = 64;

/// The sink of one connection.
pub(super) struct QueueSink {
    queue: Arc<OpenQueue>,
    appender: Appender,
    writer: RecordWriter,
    slots: Vec<Option<Delivery>>,
    /// Slots with records that are not appended, in the order of their batches. Only the first one may append.
    order: VecDeque<usize>,
    capacity: Arc<Capacity>,
    reliever: Reliever,
    /// `true` once the log may exceed its limit, because the flow drains.
    is_lifted: bool,
    /// Bytes of the records that are not durable.
    staged: Arc<AtomicUsize>,
    charge: Charge,
}

/// A delivery in flight.
#[derive(Default)]
struct Delivery {
    /// `true` once the batch was written to records. The batches of deliveries that wait for earlier ones are not, so that
    /// their records take no memory.
    is_written: bool,
    /// Records that are not appended.
    records: VecDeque<NewRecord>,
    refused: Vec<Exception>,
    progress: Arc<Progress>,
    /// Waker of the slot, while the delivery waits for earlier ones.
    waiting: Option<Waker>,
}

/// The records of a delivery that were appended. The thread of the log updates it.
#[derive(Default)]
struct Progress(Mutex<Appended>);

#[derive(Default)]
struct Appended {
    /// Number of records that are not durable yet.
    left: usize,
    /// `true` if a record will not become durable, because the log was closed.
    is_lost: bool,
    /// Positions of the events that the queue gave up because it is full.
    given_up: Vec<Range<usize>>,
    waker: Option<Waker>,
}

impl QueueSink {
    pub(super) fn new(queue: Arc<OpenQueue>) -> Self {
        let capacity = Arc::default();
        Self {
            appender: queue.log.appender(),
            writer: RecordWriter::new(queue.max_record, queue.run),
            slots: Vec::new(),
            order: VecDeque::new(),
            reliever: Reliever::new(&queue, &capacity),
            capacity,
            is_lifted: false,
            staged: Arc::default(),
            charge: Charge::new(queue.account.clone()),
            queue,
        }
    }

    /// Allows the log to exceed its limit once the flow drains, so that what has arrived becomes durable.
    fn check_drain(&mut self) {
        if !self.is_lifted && self.queue.control.has_reached(Phase::Draining) {
            self.is_lifted = true;
            self.queue.log.lift_limit();
        }
    }

    /// Writes the records of the first waiting delivery, unless they are written, and appends them. Pending if the log has
    /// no capacity for all of them. If the queue is full and blocks nobody, gives up the records for which it has none.
    ///
    /// # Errors
    /// Returns an error if the log was closed.
    fn append(
        &mut self,
        context: &Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<()>> {
        let Self { queue, appender, writer, slots, capacity, staged, reliever, .. } = self;
        let Some(delivery) = &mut slots[slot] else { return Poll::Ready(Ok(())) };
        if !std::mem::replace(&mut delivery.is_written, true) {
            let Written { records, refused } = writer.write(batch);
            (delivery.records, delivery.refused) = (records, refused);
        }
        while let Some(NewRecord { bytes, events }) = delivery.records.pop_front() {
            let len = bytes.len();
            let is_whole = events.len() == batch.len();
            let recent = is_whole.then(|| queue.recent.copy_of(batch, len)).flatten();
            let (progress, queue, staging) =
                (delivery.progress.clone(), queue.clone(), staged.clone());
            lock(&progress.0).left += 1;
            staged.fetch_add(len, Ordering::Relaxed);
            let positions = events.clone();
            let done = move |result: std::result::Result<u64, NotDurable>| {
                staging.fetch_sub(len, Ordering::Relaxed);
                if let Ok(number) = result {
                    queue.added(number, positions.len() as u64, recent);
                }
                // The thread of the log must not be the last to use the queue, because dropping the log joins it.
                drop(queue);
                progress.ended(result, positions);
            };
            let Err(Refused { reason, record }) = appender.append(bytes, done) else { continue };
            staged.fetch_sub(len, Ordering::Relaxed);
            lock(&delivery.progress.0).left -= 1;
            delivery.records.push_front(NewRecord { bytes: record, events });
            match reason {
                Reason::Busy => {
                    capacity.wait(context, appender);
                    return Poll::Pending;
                }
                Reason::Full => match reliever.poll(context) {
                    Relief::None => {
                        capacity.wait(context, appender);
                        return Poll::Pending;
                    }
                    Relief::Waits => return Poll::Pending,
                    Relief::Again => capacity.notify(),
                    Relief::GiveUp => {
                        let given_up = delivery.records.drain(..).map(|it| it.events);
                        lock(&delivery.progress.0).given_up.extend(given_up);
                    }
                },
                Reason::Closed => return Poll::Ready(Err(closed())),
                Reason::TooLarge { .. } | Reason::NotARecord(_) => {
                    return Poll::Ready(Err(Error::internal(reason)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Polls whether the records of a delivery are durable or given up. While they are not, and the queue blocks nobody,
    /// makes the log give up what it has no space for.
    fn poll_progress(
        &mut self,
        context: &Context<'_>,
        progress: &Progress,
    ) -> Poll<Result<Vec<Range<usize>>>> {
        let polled = progress.poll(context);
        if polled.is_ready() || self.queue.when_full.blocks() {
            return polled;
        }
        // Registered before the check, so that it is not missed when the log becomes full.
        self.capacity.wait(context, &self.appender);
        if self.queue.log.status().is_full && self.reliever.poll(context) == Relief::Again {
            self.capacity.notify();
        }
        polled
    }

    /// Removes a slot from the order, and wakes the next one.
    fn leave_order(&mut self, slot: usize) {
        let was_first = self.order.front() == Some(&slot);
        self.order.retain(|other| *other != slot);
        if was_first
            && let Some(next) = self.order.front()
            && let Some(delivery) = &mut self.slots[*next]
        {
            delivery.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Progress {
    fn ended(&self, result: std::result::Result<u64, NotDurable>, positions: Range<usize>) {
        let waker = {
            let appended = &mut *lock(&self.0);
            appended.left -= 1;
            match result {
                Ok(_) => {}
                Err(NotDurable::Closed) => appended.is_lost = true,
                Err(NotDurable::Full) => appended.given_up.push(positions),
            }
            if appended.left == 0 { appended.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns the positions of the events that the queue gave up, once no record waits.
    fn poll(&self, context: &Context<'_>) -> Poll<Result<Vec<Range<usize>>>> {
        let appended = &mut *lock(&self.0);
        if appended.left > 0 {
            appended.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        if appended.is_lost {
            return Poll::Ready(Err(closed()));
        }
        Poll::Ready(Ok(std::mem::take(&mut appended.given_up)))
    }
}

/// Returns the error for a batch that is not durable because the log was closed. It is delivered again if the queue is
/// opened again.
fn closed() -> Error {
    Error::connection_lost("the log of the queue on disk was closed")
}

/// Returns the error for events that a full queue gives up. The engine treats them as `queue.when_full` sets.
fn full() -> Error {
    Error::full("the queue on disk is full").with_policy(ErrorPolicy::DEAD_LETTER)
}

impl DynSink for QueueSink {
    fn demand(&mut self) -> Demand {
        // The order of the batches is kept here, so that batches of one stream share a commit.
        Demand::new().in_flight(IN_FLIGHT).at_most(IN_FLIGHT).ordered(false)
    }

    fn on_grant(&mut self, grant: Grant) {
        self.slots.resize_with(grant.in_flight, || None);
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        self.check_drain();
        if self.slots.len() <= slot {
            return Poll::Ready(Err(Error::internal(format_args!("the queue has no slot {slot}"))));
        }
        if self.slots[slot].is_none() {
            self.slots[slot] = Some(Delivery::default());
            self.order.push_back(slot);
        }
        if self.order.contains(&slot) {
            if self.order.front() != Some(&slot) {
                if let Some(delivery) = &mut self.slots[slot] {
                    delivery.waiting = Some(context.waker().clone());
                }
                return Poll::Pending;
            }
            let Poll::Ready(appended) = self.append(context, slot, batch) else {
                return Poll::Pending;
            };
            self.leave_order(slot);
            self.charge.set(self.staged.load(Ordering::Relaxed));
            if let Err(error) = appended {
                self.slots[slot] = None;
                return Poll::Ready(Err(error));
            }
        }
        let Some(delivery) = &self.slots[slot] else { return Poll::Pending };
        let progress = delivery.progress.clone();
        let Poll::Ready(ended) = self.poll_progress(context, &progress) else {
            return Poll::Pending;
        };
        let delivery = self.slots[slot].take();
        self.charge.set(self.staged.load(Ordering::Relaxed));
        let mut refused = delivery.map(|it| it.refused).unwrap_or_default();
        Poll::Ready(ended.map(|given_up| {
            refused.extend(given_up.into_iter().map(|events| Exception { events, error: full() }));
            refused.sort_by_key(|it| it.events.start);
            refused
        }))
    }

    fn give_up(&mut self, slot: usize) {
        if slot < self.slots.len() {
            self.leave_order(slot);
            self.slots[slot] = None;
        }
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        self.check_drain();
        Box::pin(async { Ok(()) })
    }

    /// Lets the source finish when everything is delivered. All deliveries were answered.
    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        self.queue.end_input();
        Box::pin(async { Ok(()) })
    }
}
