//! The sink of a queue on disk: appends batches in the order in which they arrive, and answers when they are durable.
//!
//! Several deliveries are in flight, so that one sync makes the records of all of them durable.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tremor_log::{Appender, NotDurable, Reason, Refused};
use tremor_pdk::{Batch, Demand, Error, Exception, Grant, Result, lock};

use super::{
    opened::OpenQueue,
    record::{NewRecord, RecordWriter, Written},
};
use crate::dynamic::{BoxFuture, DynSink};
use crate::engine::{control::Phase, handle::connection::Connection};
use crate::memory::Charge;

/// Number of deliveries in flight. A commit contains at most this number of batches.
const IN_FLIGHT: usize = 64;

/// The name of the problem that the connector reports while the disk takes nothing.
const PROBLEM: &str = "disk";

/// The sink of one connection.
pub(super) struct QueueSink {
    queue: Arc<OpenQueue>,
    connection: Arc<Connection>,
    appender: Appender,
    writer: RecordWriter,
    slots: Vec<Option<Delivery>>,
    /// Slots with records that are not appended, in the order of their batches. Only the first one may append.
    order: VecDeque<usize>,
    capacity: Arc<Capacity>,
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
    waker: Option<Waker>,
}

/// The wait for capacity of the log.
#[derive(Default)]
struct Capacity {
    /// `true` while the log is going to call [`Capacity::notify`].
    is_requested: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Capacity {
    fn notify(&self) {
        self.is_requested.store(false, Ordering::Release);
        let waker = lock(&self.waker).take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Wakes the task of `context` when the log may have capacity.
    fn wait(self: &Arc<Self>, context: &Context<'_>, appender: &Appender) {
        *lock(&self.waker) = Some(context.waker().clone());
        if !self.is_requested.swap(true, Ordering::AcqRel) {
            let capacity = self.clone();
            appender.notify(move || capacity.notify());
        }
    }
}

impl QueueSink {
    pub(super) fn new(queue: Arc<OpenQueue>, connection: Arc<Connection>) -> Self {
        Self {
            appender: queue.log.appender(),
            writer: RecordWriter::new(queue.max_record, queue.run),
            slots: Vec::new(),
            order: VecDeque::new(),
            capacity: Arc::default(),
            is_lifted: false,
            staged: Arc::default(),
            charge: Charge::new(queue.account.clone()),
            queue,
            connection,
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
    /// no capacity for all of them.
    ///
    /// # Errors
    /// Returns an error if the log was closed.
    fn append(
        &mut self,
        context: &Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<()>> {
        let Self { queue, appender, writer, slots, capacity, staged, .. } = self;
        let Some(delivery) = &mut slots[slot] else { return Poll::Ready(Ok(())) };
        if !std::mem::replace(&mut delivery.is_written, true) {
            let Written { records, refused } = writer.write(batch);
            (delivery.records, delivery.refused) = (records, refused);
        }
        while let Some(NewRecord { bytes, events }) = delivery.records.pop_front() {
            let len = bytes.len();
            let (progress, queue, staging) =
                (delivery.progress.clone(), queue.clone(), staged.clone());
            lock(&progress.0).left += 1;
            staged.fetch_add(len, Ordering::Relaxed);
            let done = move |result: std::result::Result<u64, NotDurable>| {
                staging.fetch_sub(len, Ordering::Relaxed);
                if result.is_ok() {
                    queue.added(events);
                }
                progress.ended(result.is_ok());
            };
            let Err(Refused { reason, record }) = appender.append(bytes, done) else { continue };
            staged.fetch_sub(len, Ordering::Relaxed);
            lock(&delivery.progress.0).left -= 1;
            delivery.records.push_front(NewRecord { bytes: record, events });
            match reason {
                Reason::Busy | Reason::Full => {
                    capacity.wait(context, appender);
                    return Poll::Pending;
                }
                Reason::Closed => return Poll::Ready(Err(closed())),
                Reason::TooLarge { .. } | Reason::NotARecord(_) => {
                    return Poll::Ready(Err(Error::internal(reason)));
                }
            }
        }
        Poll::Ready(Ok(()))
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

    /// Reports a full queue and a disk that fails as a problem of the connector.
    fn report(&self) {
        let status = self.queue.log.status();
        let path = self.queue.path.display();
        let problem = match status.failure {
            Some(failure) => Some(Error::connection_refused(failure)),
            None if status.is_full => Some(Error::full(format_args!(
                "the queue on disk {path} is full; its events leave when the sink delivers them; increase \
                 `queue.disk.max_bytes` to keep more"
            ))),
            None => None,
        };
        self.connection.set_problem(PROBLEM, problem, self.queue.control.clock().now());
    }
}

impl Progress {
    fn ended(&self, is_durable: bool) {
        let waker = {
            let appended = &mut *lock(&self.0);
            appended.left -= 1;
            appended.is_lost |= !is_durable;
            if appended.left == 0 { appended.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<()>> {
        let appended = &mut *lock(&self.0);
        if appended.left > 0 {
            appended.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(if appended.is_lost { Err(closed()) } else { Ok(()) })
    }
}

/// Returns the error for a batch that is not durable because the log was closed. It is delivered again if the queue is
/// opened again.
fn closed() -> Error {
    Error::connection_lost("the log of the queue on disk was closed")
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
        let Some(delivery) = &mut self.slots[slot] else { return Poll::Pending };
        let Poll::Ready(durable) = delivery.progress.poll(context) else { return Poll::Pending };
        let refused = std::mem::take(&mut delivery.refused);
        self.slots[slot] = None;
        self.charge.set(self.staged.load(Ordering::Relaxed));
        Poll::Ready(durable.map(|()| refused))
    }

    fn give_up(&mut self, slot: usize) {
        if slot < self.slots.len() {
            self.leave_order(slot);
            self.slots[slot] = None;
        }
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        self.check_drain();
        self.report();
        Box::pin(async { Ok(()) })
    }

    /// Lets the source finish when everything is delivered. All deliveries were answered.
    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        self.queue.end_input();
        Box::pin(async { Ok(()) })
    }
}
