//! A full queue on disk that stops no source: it gives up new records, or drops the oldest ones.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
};

use tremor_abi::frame::Header;
use tremor_log::{Appender, Reader, Record};
use tremor_pdk::lock;

use super::opened::OpenQueue;
use crate::engine::{logging::losses::OverflowReason, route::fan_out::count_drop};
use crate::executor;
use crate::flow::WhenFull;

/// The wait for capacity of the log.
#[derive(Default)]
pub(super) struct Capacity {
    /// `true` while the log is going to call [`Capacity::notify`].
    is_requested: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Capacity {
    /// Wakes all tasks that wait.
    pub(super) fn notify(&self) {
        self.is_requested.store(false, Ordering::Release);
        let wakers = std::mem::take(&mut *lock(&self.wakers));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes the task of `context` with the next [`Capacity::notify`].
    fn register(&self, context: &Context<'_>) {
        let mut wakers = lock(&self.wakers);
        if !wakers.iter().any(|it| it.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
    }

    /// Wakes the task of `context` when the log may have capacity, or was found full.
    pub(super) fn wait(self: &Arc<Self>, context: &Context<'_>, appender: &Appender) {
        self.register(context);
        if !self.is_requested.swap(true, Ordering::AcqRel) {
            let capacity = self.clone();
            appender.notify(move || capacity.notify());
        }
    }
}

/// The answer of a full queue to a record for which it has no capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relief {
    /// The record waits until the log has capacity.
    None,
    /// Older records are being dropped. The task is woken afterwards.
    Waits,
    /// Older records were dropped: the log may have capacity now.
    Again,
    /// The record has to be given up. Those that wait in the log are refused.
    GiveUp,
}

/// Makes a full queue do what `queue.when_full` sets.
pub(super) struct Reliever {
    queue: Arc<OpenQueue>,
    capacity: Arc<Capacity>,
    /// Number of the connection.
    connection: u64,
    /// The reader of the records that are dropped. `None` while they are being dropped.
    reader: Option<Reader>,
    /// The records that are being dropped.
    dropping: Option<Arc<Dropping>>,
}

/// The result of dropping the oldest records, once that has ended.
type Dropping = Mutex<Option<Dropped>>;

/// The reader, unless the thread has panicked, and the number of the records that were dropped.
type Dropped = (Option<Reader>, usize);

/// Reports the result when it is dropped, also if the thread panics.
struct End {
    dropping: Arc<Dropping>,
    capacity: Arc<Capacity>,
    dropped: Dropped,
}

impl Drop for End {
    fn drop(&mut self) {
        *lock(&self.dropping) = Some(std::mem::take(&mut self.dropped));
        self.capacity.notify();
    }
}

impl Reliever {
    pub(super) fn new(queue: &Arc<OpenQueue>, capacity: &Arc<Capacity>) -> Self {
        Self {
            connection: queue.connection(),
            reader: Some(queue.log.reader()),
            dropping: None,
            capacity: capacity.clone(),
            queue: queue.clone(),
        }
    }

    /// Begins or continues to do what `queue.when_full` sets. Call this while the log is full.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Relief {
        match self.queue.when_full {
            WhenFull::Block => Relief::None,
            WhenFull::DropNewest | WhenFull::DeadLetter => self.give_up(),
            WhenFull::DropOldest => self.drop_oldest(context),
        }
    }

    fn give_up(&self) -> Relief {
        self.queue.log.refuse_waiting();
        Relief::GiveUp
    }

    fn drop_oldest(&mut self, context: &Context<'_>) -> Relief {
        // Registered before the check, so that the end is not missed.
        self.capacity.register(context);
        let dropping = self.dropping.take().unwrap_or_else(|| self.begin());
        let Some((reader, records)) = lock(&dropping).take() else {
            self.dropping = Some(dropping);
            return Relief::Waits;
        };
        self.reader = reader;
        // If all records are with the sink, only new ones are left.
        if records > 0 { Relief::Again } else { self.give_up() }
    }

    /// Begins to drop the oldest records on another thread.
    fn begin(&mut self) -> Arc<Dropping> {
        let dropping = Arc::<Dropping>::default();
        let (queue, connection) = (self.queue.clone(), self.connection);
        let mut reader = self.reader.take().unwrap_or_else(|| queue.log.reader());
        let capacity = self.capacity.clone();
        let end = End { dropping: dropping.clone(), capacity, dropped: (None, 0) };
        executor::spawn_blocking(move || {
            let mut end = end;
            let records = drop_records(&queue, connection, &mut reader);
            end.dropped = (Some(reader), records);
            drop(end);
        });
        dropping
    }
}

/// Drops the oldest records that were not handed out: half a segment of them, so that few more are dropped than needed.
/// Returns the number of the records that were dropped. Blocks the thread.
fn drop_records(queue: &OpenQueue, connection: u64, reader: &mut Reader) -> usize {
    let (mut events, mut records, mut bytes) = (0, 0, 0);
    while bytes < queue.max_record {
        let record = match reader.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(component = %queue.sink, %error, "cannot drop the oldest events of a full queue");
                break;
            }
        };
        let Record { number, bytes: record } = record;
        let count = Header::read(&record).map_or(0, |it| it.events);
        match queue.drop_record(connection, number, count.into()) {
            None => break,
            Some(false) => {}
            Some(true) => {
                events += count as usize;
                records += 1;
                bytes += record.len();
            }
        }
    }
    // Counted here, because nobody may wait for the result any more.
    let OpenQueue { sink, stats, control, .. } = queue;
    count_drop(sink, events, OverflowReason::QueueFull, stats, control);
    records
}
