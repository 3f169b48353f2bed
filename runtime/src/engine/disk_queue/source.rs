//! The source of a queue on disk: reads one record as one batch, or takes the batch of a new record, in the order of the
//! records.

use std::{
    collections::VecDeque,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tremor_log::{DeviceError, Reader, Record};
use tremor_pdk::{Acks, Batch, Error, ErrorPolicy, Pull, Result, lock};

use super::{
    blocking,
    opened::{HandedOut, OpenQueue, QueueAcks},
    record::{RecordReader, StoredBatch},
};
use crate::clock::Alarm;
use crate::dynamic::DynSource;
use crate::memory::Charge;

/// Number of bytes after which no further record is read at a time. A record may be larger.
const READ_AHEAD: usize = 256 << 10;

/// Maximum number of records that are read at a time.
const MOST_READ: usize = 64;

/// The source of one connection.
pub(super) struct QueueSource {
    queue: Arc<OpenQueue>,
    /// The readers. `None` while a read is in flight.
    readers: Option<Box<Readers>>,
    reading: Option<Pin<Box<dyn Future<Output = Result<Answer>> + Send>>>,
    /// Number of the last record that was read or taken.
    last: u64,
    /// Records that were read and not handed out, in order.
    ready: VecDeque<Record>,
    /// The next record, if it waits until older ones are settled.
    held: Option<(HandedOut, StoredBatch)>,
    /// A record to be delivered again.
    again: Option<(HandedOut, StoredBatch)>,
    /// The record whose repeated read is in flight.
    reads_again: Option<HandedOut>,
    /// The record whose refused events are being kept, with their positions.
    keeps: Option<(HandedOut, Vec<Range<usize>>)>,
    records: RecordReader,
    /// Number of the run that wrote the record which was handed out last.
    run: Option<u64>,
    charge: Charge,
    alarm: Alarm,
}

/// The readers of a log. Each of them has a position of its own.
struct Readers {
    next: Reader,
    again: Reader,
}

/// The answer of a thread that reads.
struct Answer {
    readers: Box<Readers>,
    read: Result<Vec<Record>>,
}

/// Returns the error for a log that cannot be read. The read is retried.
fn unreadable(error: DeviceError) -> Error {
    Error::internal(error).with_policy(ErrorPolicy::RETRY)
}

impl QueueSource {
    pub(super) fn new(queue: Arc<OpenQueue>) -> Self {
        let readers = Readers { next: queue.log.reader(), again: queue.log.reader() };
        Self {
            readers: Some(Box::new(readers)),
            reading: None,
            last: queue.log.status().settled,
            ready: VecDeque::new(),
            held: None,
            again: None,
            reads_again: None,
            keeps: None,
            records: RecordReader::default(),
            run: None,
            charge: Charge::new(queue.account.clone()),
            alarm: queue.control.clock().alarm(),
            queue,
        }
    }

    /// Returns whether another thread reads, so that a pull may complete by itself.
    #[cfg(test)]
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Begins to read on another thread: the record `again` again, or otherwise the next records.
    fn read(&mut self, again: Option<u64>) {
        let Some(mut readers) = self.readers.take() else { return };
        let last = self.last;
        let until = if again.is_some() { last } else { self.queue.recent.begin(last) };
        self.reading = Some(Box::pin(blocking(move || {
            let read = match again {
                Some(number) => readers.again.again(number).map(|it| it.into_iter().collect()),
                None => read_ahead(&mut readers.next, last, until),
            };
            Answer { readers, read: read.map_err(unreadable) }
        })));
    }

    /// Begins to keep events of a record on another thread, because the sink has refused them.
    fn keep(&mut self, record: HandedOut, positions: Vec<Range<usize>>) {
        let Some(mut readers) = self.readers.take() else { return };
        let (number, kept) = (record.number, positions.clone());
        let rejected = self.queue.rejected.clone();
        self.keeps = Some((record, positions));
        self.reading = Some(Box::pin(blocking(move || {
            let read = readers.again.again(number).map_err(unreadable).and_then(|record| {
                // A record that was damaged meanwhile was counted by the log.
                let Some(record) = record else { return Ok(Vec::new()) };
                lock(&rejected).keep(number, &record.bytes, &kept)?;
                Ok(Vec::new())
            });
            Answer { readers, read }
        })));
    }

    /// Polls the read in flight. Completes at once if there is none.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(reading) = &mut self.reading else { return Poll::Ready(Ok(())) };
        let Poll::Ready(answer) = reading.as_mut().poll(context) else { return Poll::Pending };
        self.reading = None;
        let Answer { readers, read } = answer?;
        self.readers = Some(readers);
        let (again, keeps) = (self.reads_again.take(), self.keeps.take());
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                match (again, keeps) {
                    (Some(record), _) => self.queue.deliver_again(record),
                    (None, Some((record, positions))) => self.queue.refuse(record, positions),
                    (None, None) => self.queue.set_has_more(),
                }
                return Poll::Ready(Err(error));
            }
        };
        if let Some((record, _)) = keeps {
            self.queue.settle(&record);
            return Poll::Ready(Ok(()));
        }
        let Some(record) = again else {
            if let Some(newest) = read.last() {
                self.last = newest.number;
                if !self.queue.recent.has_all_after(self.last) {
                    self.queue.set_has_more();
                }
            } else {
                self.queue.read_nothing();
                // The record after which batches are retained cannot be read, for example because it was dropped.
                if !self.queue.recent.has_all_after(self.last) && self.queue.recent.release() {
                    self.queue.set_has_more();
                }
            }
            self.ready.extend(read);
            self.charge.set(self.ready.iter().map(|it| it.bytes.len()).sum());
            return Poll::Ready(Ok(()));
        };
        match read.into_iter().next() {
            Some(found) => {
                self.again = Some((record, self.records.read(found.number, &found.bytes)?));
            }
            // The record was damaged meanwhile, which the log has counted.
            None => self.queue.settle(&record),
        }
        Poll::Ready(Ok(()))
    }

    /// Puts the events of a record into `batch`.
    fn hand_out(&mut self, record: HandedOut, stored: StoredBatch, batch: &mut Batch) -> Pull {
        let _ = self.queue.set_waits(false);
        let (pull, mut events) = (batch.pull(), stored.batch);
        events.set_pull(pull);
        if let Some(identity) = &self.queue.identity {
            identity.add(record.number, &mut events);
        }
        *batch = events;
        self.queue.hand_out(pull, record);
        self.charge.set(self.ready.iter().map(|it| it.bytes.len()).sum());
        Pull::Events
    }

    /// Returns whether all records that were handed out are settled.
    fn is_settled(&self) -> bool {
        let is_busy = self.again.is_some() || self.reads_again.is_some() || self.keeps.is_some();
        !is_busy && self.queue.is_settled()
    }

    /// Removes and returns the next record that was read, or that has just become durable.
    fn take_next(&mut self) -> Result<Option<(HandedOut, StoredBatch)>> {
        let (number, stored) = match self.ready.pop_front() {
            Some(Record { number, bytes }) => (number, self.records.read(number, &bytes)?),
            // The records of a read in flight come first.
            None if self.reading.is_some() => return Ok(None),
            None => {
                let Some(recent) = self.queue.take_recent(self.last) else { return Ok(None) };
                self.last = recent.number;
                (recent.number, StoredBatch { batch: recent.batch, run: self.queue.run })
            }
        };
        Ok(Some((HandedOut::new(number, stored.batch.len() as u64), stored)))
    }

    /// Returns the next record that may be handed out. The first record of a run is held until all older ones are
    /// settled, because the streams of two runs have different numbers, so that a sink which delivers streams in order
    /// would deliver both at the same time.
    fn next_record(&mut self) -> Result<Option<(HandedOut, StoredBatch)>> {
        loop {
            if self.held.is_none() {
                self.held = self.take_next()?;
            }
            let Some((record, stored)) = &self.held else { return Ok(None) };
            let is_of_run = self.run == Some(stored.run);
            if !is_of_run && !self.is_settled() {
                return Ok(None);
            }
            if self.queue.take_out(record.number) {
                self.run = Some(stored.run);
                return Ok(self.held.take());
            }
            // A full queue has dropped the record after it was read.
            self.held = None;
        }
    }
}

/// Reads the next records after the record `last`, as many as are read at a time, but none after the record `until`.
fn read_ahead(reader: &mut Reader, last: u64, until: u64) -> Result<Vec<Record>, DeviceError> {
    reader.skip_to(last);
    let (mut records, mut bytes) = (Vec::<Record>::new(), 0);
    let is_at_end = |records: &[Record]| records.last().is_some_and(|it| it.number >= until);
    while records.len() < MOST_READ && bytes < READ_AHEAD && !is_at_end(&records) {
        match reader.next() {
            Ok(Some(record)) => {
                bytes += record.bytes.len();
                records.push(record);
            }
            Err(error) if records.is_empty() => return Err(error),
            // The next read returns an error that comes after records.
            Ok(None) | Err(_) => break,
        }
    }
    Ok(records)
}

impl DynSource for QueueSource {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        // Registered before anything is checked, so that no change is missed.
        self.queue.register(context);
        loop {
            // Checked first, so that nothing is added after the other checks.
            let has_ended = self.queue.has_ended();
            let is_reading = self.poll_read(context)?.is_pending();
            if let Some((record, stored)) = self.again.take() {
                return Poll::Ready(Ok(self.hand_out(record, stored, batch)));
            }
            let now = self.queue.control.clock().now();
            if !is_reading && let Some((record, positions)) = self.queue.take_refused() {
                self.keep(record, positions);
                continue;
            }
            if !is_reading && let Some(record) = self.queue.take_again(now) {
                self.read(Some(record.number));
                self.reads_again = Some(record);
                continue;
            }
            if let Some((record, stored)) = self.next_record()? {
                return Poll::Ready(Ok(self.hand_out(record, stored, batch)));
            }
            let is_empty = self.held.is_none() && self.ready.is_empty();
            if is_empty && !is_reading {
                if self.queue.take_has_more() {
                    self.read(None);
                    continue;
                }
                if has_ended && self.is_settled() {
                    return Poll::Ready(Ok(Pull::Finished));
                }
            }
            let waits = self.held.is_some() || (is_empty && self.queue.waits_for_settlement());
            if self.queue.set_waits(waits) {
                continue;
            }
            let next = self.queue.next_again().filter(|_| !is_reading);
            if self.alarm.poll_earliest(context, [(next, ())]).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Does nothing: a read in flight continues, and the next pull gets its records.
    fn give_up(&mut self, _: &mut Batch) {}

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(Some(Box::new(QueueAcks(self.queue.clone()))))
    }
}
