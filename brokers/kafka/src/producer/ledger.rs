//! The ledger of deliveries: it tracks which deliveries are in flight, and what librdkafka has reported about their
//! records.

use std::{
    ffi::CStr,
    future::poll_fn,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
    task::{Poll, Waker},
    time::Instant,
};

use rdkafka::{
    producer::{BaseProducer, ProducerContext},
    types::RDKafkaErrorCode as Code,
};
use tremor_pdk::{Error, RawBatch, lock};

use super::native::{self, Payload, Record};

/// Number of bits in a record ID for the position of the event. The upper half of the ID is the number of the delivery.
const POSITION_BITS: u32 = usize::BITS / 2;
const POSITION_MASK: usize = (1 << POSITION_BITS) - 1;
/// Maximum number of events in a delivery.
pub(super) const MAX_EVENTS: usize = POSITION_MASK;

/// The deliveries of a client that are in flight.
#[derive(Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
    /// Error because of which no more records are delivered over this connection. Locked for reading while records are
    /// handed to librdkafka, so that the ledger cannot end between the records of one call.
    end: RwLock<Option<Error>>,
}

/// Guard for handing records to librdkafka. The ledger cannot end while the guard exists.
pub(super) struct SendGuard<'l>(RwLockReadGuard<'l, Option<Error>>);

#[derive(Default)]
struct State {
    deliveries: Vec<Option<Delivery>>,
    free: Vec<usize>,
    /// Wakers of deliveries that wait until the client's queue has capacity for another record.
    awaiting_capacity: Vec<Waker>,
    /// Number of records that librdkafka has reported on.
    reported: u64,
    /// Number of records that the brokers have accepted, which are also counted in `reported`.
    delivered: u64,
    /// Wakers of completed deliveries.
    done: Vec<Waker>,
}

struct Delivery {
    /// Keeps the payloads alive while the client reads them. Shares the buffers of the delivery's batch, and nobody
    /// writes to a shared buffer. Contains no events.
    _payloads: RawBatch,
    since: Instant,
    reported: usize,
    /// Number of records that the client accepted; `None` until all records were handed over.
    sent: Option<usize>,
    failed: Vec<(usize, Code)>,
    /// `true` once nobody waits for the delivery.
    is_abandoned: bool,
    waker: Option<Waker>,
}

/// Handle of a delivery in the ledger. If the handle is dropped, the payloads stay alive until the client has reported
/// on all records of the delivery.
pub(super) struct Entry<'l> {
    ledger: &'l Ledger,
    number: usize,
    /// Address range of the buffer that the ledger keeps alive for this delivery.
    buffer: Range<usize>,
    sent: usize,
}

impl Ledger {
    /// Registers a delivery. `payloads` shares the buffers that contain the payloads of its records.
    pub(super) fn enter(&self, payloads: RawBatch) -> Entry<'_> {
        let buffer = addresses(payloads.bytes());
        let mut state = self.state();
        let number = state.free.pop().unwrap_or_else(|| {
            state.deliveries.push(None);
            state.deliveries.len() - 1
        });
        state.deliveries[number] = Some(Delivery {
            _payloads: payloads,
            since: Instant::now(),
            reported: 0,
            sent: None,
            failed: Vec::new(),
            is_abandoned: false,
            waker: None,
        });
        Entry { ledger: self, number, buffer, sent: 0 }
    }

    /// Stores librdkafka's report on the record with this ID. `failed` is `None` if the brokers accepted the record.
    pub(super) fn report(&self, id: usize, failed: Option<Code>) {
        let mut state = self.state();
        state.reported += 1;
        state.delivered += u64::from(failed.is_none());
        let (number, position) = (id >> POSITION_BITS, id & POSITION_MASK);
        let Some(Some(delivery)) = state.deliveries.get_mut(number) else { return };
        delivery.reported += 1;
        delivery.failed.extend(failed.map(|code| (position, code)));
        if delivery.sent == Some(delivery.reported) {
            let waker = delivery.waker.take();
            if delivery.is_abandoned {
                state.remove(number);
            }
            state.done.extend(waker);
        }
    }

    /// Wakes the completed deliveries and the deliveries that wait for capacity.
    pub(super) fn wake(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state();
            wakers.append(&mut state.done);
            wakers.append(&mut state.awaiting_capacity);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until librdkafka has reported on more than `reported` records, or the ledger has ended.
    pub(super) async fn wait_for_capacity(&self, reported: u64) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.reported != reported || self.open().ended().is_some() {
                return Poll::Ready(());
            }
            state.awaiting_capacity.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns the number of records that librdkafka has reported on.
    pub(super) fn reported(&self) -> u64 {
        self.state().reported
    }

    /// Returns the number of records that the brokers accepted.
    pub(super) fn delivered(&self) -> u64 {
        self.state().delivered
    }

    /// Returns the start time of the oldest delivery for which somebody waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let state = self.state();
        state.deliveries.iter().flatten().filter(|it| !it.is_abandoned).map(|it| it.since).min()
    }

    /// Ends the ledger: no more records are delivered, because of `error`. Returns `true` if this was the first
    /// call.
    pub(super) fn end(&self, error: Error) -> bool {
        let mut end = self.end.write().unwrap_or_else(PoisonError::into_inner);
        let is_first = end.is_none();
        end.get_or_insert(error);
        drop(end);
        self.wake();
        is_first
    }

    /// Returns the error because of which no more records are delivered, if the ledger has ended.
    pub(super) fn ended(&self) -> Option<Error> {
        self.open().ended().cloned()
    }

    /// Starts handing over records. The ledger cannot end until the result is dropped, so keep it only briefly.
    pub(super) fn open(&self) -> SendGuard<'_> {
        SendGuard(self.end.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl SendGuard<'_> {
    /// Returns the error because of which no more records are delivered, if the ledger has ended.
    pub(super) fn ended(&self) -> Option<&Error> {
        self.0.as_ref()
    }
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let Range { start, end } = bytes.as_ptr_range();
    start.addr()..end.addr()
}

impl State {
    fn remove(&mut self, number: usize) -> Option<Delivery> {
        self.free.push(number);
        self.deliveries[number].take()
    }
}

impl Entry<'_> {
    fn id(&self, position: usize) -> usize {
        (self.number << POSITION_BITS) | position
    }

    /// Hands the record of the event at `position` to the client.
    ///
    /// # Errors
    /// The client rejected the record, or the ledger has ended. After the ledger has ended, the client's queue is
    /// purged, and no record may be added.
    pub(super) fn send<C: ProducerContext>(
        &mut self,
        guard: &SendGuard<'_>,
        client: &BaseProducer<C>,
        topic: &CStr,
        record: &mut Record<'_>,
        payload: &[u8],
        position: usize,
    ) -> Result<(), Code> {
        if guard.ended().is_some() {
            return Err(Code::PurgeQueue);
        }
        let own = addresses(payload);
        let is_kept = self.buffer.start <= own.start && own.end <= self.buffer.end;
        let kept = if is_kept { Payload::Kept } else { Payload::Copied };
        let id = self.id(position);
        // SAFETY: a payload that is not copied lies in the buffer of a batch that the ledger owns, and nobody writes to
        // a shared buffer. The ledger drops the batch only after all records that were sent have been reported. If some
        // are never reported, the batch is dropped with the client's context, which outlives the client.
        unsafe { native::send(client, topic, record, (payload, kept), id)? };
        self.sent += 1;
        Ok(())
    }

    /// Waits until librdkafka has reported on all records. Returns the records that the brokers did not accept, as
    /// positions and error codes, ordered by position.
    pub(super) async fn reports(mut self) -> Vec<(usize, Code)> {
        let mut failed = poll_fn(|context| {
            let mut state = self.ledger.state();
            let Some(delivery) = &mut state.deliveries[self.number] else {
                return Poll::Ready(Vec::new());
            };
            delivery.sent = Some(self.sent);
            if delivery.reported < self.sent {
                delivery.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut delivery.failed))
        })
        .await;
        failed.sort_unstable_by_key(|(position, _)| *position);
        self.sent = 0;
        failed
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut state = self.ledger.state();
        let Some(Some(delivery)) = state.deliveries.get_mut(self.number) else { return };
        delivery.is_abandoned = true;
        delivery.waker = None;
        let sent = *delivery.sent.get_or_insert(self.sent);
        if sent == delivery.reported {
            state.remove(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use rdkafka::{ClientConfig, producer::BaseProducer, types::RDKafkaErrorCode as Code};
    use tremor_pdk::{Error, RawBatch};

    use super::{Ledger, Record};

    fn poll<F: Future>(future: F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn delivery_completes_once_all_records_are_reported() {
        let ledger = Ledger::default();
        let mut entry = ledger.enter(RawBatch::new());
        let ids = [5, 2, 9].map(|position| entry.id(position));
        entry.sent = 3;
        let mut reports = pin!(entry.reports());
        ledger.report(ids[0], Some(Code::MessageSizeTooLarge));
        ledger.report(ids[2], None);
        assert!(poll(reports.as_mut()).is_pending());
        ledger.report(ids[1], Some(Code::InvalidRecord));
        let expected = vec![(2, Code::InvalidRecord), (5, Code::MessageSizeTooLarge)];
        assert_eq!(poll(reports.as_mut()), Poll::Ready(expected));
    }

    #[test]
    fn abandoned_delivery_keeps_its_entry_until_reported() {
        let ledger = Ledger::default();
        let mut entry = ledger.enter(RawBatch::new());
        let id = entry.id(0);
        entry.sent = 1;
        drop(entry);
        let other = ledger.enter(RawBatch::new());
        assert_ne!(other.id(0), id);
        ledger.report(id, None);
        assert_eq!(ledger.enter(RawBatch::new()).id(0), id);
        assert_eq!(poll(other.reports()), Poll::Ready(Vec::new()));
    }

    #[test]
    fn ended_ledger_rejects_records() {
        let client: BaseProducer = ClientConfig::new().create().unwrap();
        let ledger = Ledger::default();
        let mut entry = ledger.enter(RawBatch::new());
        let mut send = |position| {
            let mut record = Record {
                topic: "".into(),
                key: None,
                headers: None,
                partition: None,
                timestamp: None,
                is_tombstone: false,
            };
            entry.send(&ledger.open(), &client, c"topic", &mut record, b"payload", position)
        };
        assert_eq!(send(0), Ok(()));
        ledger.end(Error::timeout("no answer"));
        assert_eq!(send(1), Err(Code::PurgeQueue));
        assert_eq!(entry.sent, 1);
    }

    #[test]
    fn report_and_end_wake_waiters_for_capacity() {
        let ledger = Ledger::default();
        assert!(poll(ledger.wait_for_capacity(0)).is_pending());
        ledger.report(0, None);
        assert!(poll(ledger.wait_for_capacity(0)).is_ready());
        assert!(poll(ledger.wait_for_capacity(1)).is_pending());
        assert!(ledger.end(Error::timeout("one")));
        assert!(!ledger.end(Error::timeout("two")));
        assert!(poll(ledger.wait_for_capacity(1)).is_ready());
        assert_eq!(ledger.ended().map(|it| it.to_string()), Some("one".to_owned()));
    }
}
