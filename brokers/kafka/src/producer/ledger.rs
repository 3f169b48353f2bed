//! Which deliveries are under way, and what was reported of their records.

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
use tremor_pdk::{Error, RawBatch};

use super::native::{self, Payload, Record};

/// A delivery and the position of an event in one number: half of it each.
const HALF: u32 = usize::BITS / 2;
const POSITION: usize = (1 << HALF) - 1;
/// How many events a delivery may have.
pub(super) const MOST: usize = POSITION;

/// The deliveries of a client.
#[derive(Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
    /// Why nothing more is delivered over this connection. It is read for as long as records are handed over: an end
    /// comes before all of them, or after.
    end: RwLock<Option<Error>>,
}

/// Records may be handed over while this is there, unless an end has come before.
pub(super) struct Open<'l>(RwLockReadGuard<'l, Option<Error>>);

#[derive(Default)]
struct State {
    deliveries: Vec<Option<Delivery>>,
    free: Vec<usize>,
    /// Those that wait until there is room for a further record.
    without_room: Vec<Waker>,
    /// How many records were reported of, and how many of them the brokers have.
    reported: u64,
    delivered: u64,
    /// Those that have all of their reports, to be woken.
    done: Vec<Waker>,
}

struct Delivery {
    /// What the client reads the payloads in. It has no events: buffers that are shared are not written to.
    _payloads: RawBatch,
    since: Instant,
    reported: usize,
    /// How many records the client has got, once that is known.
    sent: Option<usize>,
    failed: Vec<(usize, Code)>,
    /// `None` where nobody waits for it any more.
    is_abandoned: bool,
    waker: Option<Waker>,
}

/// The place of a delivery in the ledger. If it is dropped, its payloads stay until the client is done with them.
pub(super) struct Place<'l> {
    ledger: &'l Ledger,
    number: usize,
    /// The addresses of the buffer that the ledger keeps for it.
    buffer: Range<usize>,
    sent: usize,
}

impl Ledger {
    /// Enters a delivery; the batch shares the buffers that its payloads lie in.
    pub(super) fn enter(&self, payloads: RawBatch) -> Place<'_> {
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
        Place { ledger: self, number, buffer, sent: 0 }
    }

    /// The client has reported of the record with this number.
    pub(super) fn report(&self, number: usize, failed: Option<Code>) {
        let mut state = self.state();
        state.reported += 1;
        state.delivered += u64::from(failed.is_none());
        let (number, position) = (number >> HALF, number & POSITION);
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

    /// Wakes those that reports have come for.
    pub(super) fn wake(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state();
            wakers.append(&mut state.done);
            wakers.append(&mut state.without_room);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until something was reported of since there were so many reports.
    pub(super) async fn room(&self, reported: u64) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.reported != reported || self.open().ended().is_some() {
                return Poll::Ready(());
            }
            state.without_room.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// How many records were reported of.
    pub(super) fn reported(&self) -> u64 {
        self.state().reported
    }

    /// How many records the brokers have.
    pub(super) fn delivered(&self) -> u64 {
        self.state().delivered
    }

    /// When the oldest delivery has begun of those that somebody waits for.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let state = self.state();
        state.deliveries.iter().flatten().filter(|it| !it.is_abandoned).map(|it| it.since).min()
    }

    /// Nothing more is delivered, for this reason. Whether that is news.
    pub(super) fn end(&self, error: Error) -> bool {
        let mut end = self.end.write().unwrap_or_else(PoisonError::into_inner);
        let is_news = end.is_none();
        end.get_or_insert(error);
        drop(end);
        self.wake();
        is_news
    }

    /// Why nothing more is delivered.
    pub(super) fn ended(&self) -> Option<Error> {
        self.open().ended().cloned()
    }

    /// Begins to hand over records. No end comes while this is there: not for long.
    pub(super) fn open(&self) -> Open<'_> {
        Open(self.end.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open<'_> {
    /// Why nothing more is delivered.
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

impl Place<'_> {
    fn number(&self, position: usize) -> usize {
        (self.number << HALF) | position
    }

    /// Hands the client the record of the event at this position.
    ///
    /// # Errors
    /// The client does not take it, or nothing more is delivered: what is purged then is all that there is, since
    /// nothing comes after it.
    pub(super) fn send<C: ProducerContext>(
        &mut self,
        open: &Open<'_>,
        client: &BaseProducer<C>,
        topic: &CStr,
        record: &mut Record<'_>,
        payload: &[u8],
        position: usize,
    ) -> Result<(), Code> {
        if open.ended().is_some() {
            return Err(Code::PurgeQueue);
        }
        let own = addresses(payload);
        let is_kept = self.buffer.start <= own.start && own.end <= self.buffer.end;
        let kept = if is_kept { Payload::Kept } else { Payload::Copied };
        let number = self.number(position);
        // SAFETY: a payload that is kept lies in the buffer of a batch that the ledger has, which nobody writes
        // to while it is shared. The ledger removes it once each record that was sent was reported of, and
        // otherwise it goes with the client's context, which outlives the client.
        unsafe { native::send(client, topic, record, (payload, kept), number)? };
        self.sent += 1;
        Ok(())
    }

    /// Waits until each record was reported of, and gives those that the brokers do not have, in the order of
    /// their positions.
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

impl Drop for Place<'_> {
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
    fn a_delivery_is_answered_for_once_each_record_was_reported_of() {
        let ledger = Ledger::default();
        let mut place = ledger.enter(RawBatch::new());
        let numbers = [5, 2, 9].map(|position| place.number(position));
        place.sent = 3;
        let mut reports = pin!(place.reports());
        ledger.report(numbers[0], Some(Code::MessageSizeTooLarge));
        ledger.report(numbers[2], None);
        assert!(poll(reports.as_mut()).is_pending());
        ledger.report(numbers[1], Some(Code::InvalidRecord));
        let expected = vec![(2, Code::InvalidRecord), (5, Code::MessageSizeTooLarge)];
        assert_eq!(poll(reports.as_mut()), Poll::Ready(expected));
    }

    #[test]
    fn a_delivery_that_is_given_up_keeps_its_place_until_the_client_is_done_with_it() {
        let ledger = Ledger::default();
        let mut place = ledger.enter(RawBatch::new());
        let number = place.number(0);
        place.sent = 1;
        drop(place);
        let other = ledger.enter(RawBatch::new());
        assert_ne!(other.number(0), number);
        ledger.report(number, None);
        assert_eq!(ledger.enter(RawBatch::new()).number(0), number);
        assert_eq!(poll(other.reports()), Poll::Ready(Vec::new()));
    }

    #[test]
    fn nothing_is_sent_once_nothing_more_is_delivered() {
        let client: BaseProducer = ClientConfig::new().create().unwrap();
        let ledger = Ledger::default();
        let mut place = ledger.enter(RawBatch::new());
        let mut send = |position| {
            let mut record = Record {
                topic: "",
                key: None,
                headers: None,
                partition: None,
                timestamp: None,
                is_tombstone: false,
            };
            place.send(&ledger.open(), &client, c"topic", &mut record, b"payload", position)
        };
        assert_eq!(send(0), Ok(()));
        ledger.end(Error::timeout("no answer"));
        assert_eq!(send(1), Err(Code::PurgeQueue));
        assert_eq!(place.sent, 1);
    }

    #[test]
    fn there_is_room_after_a_report_and_at_the_end() {
        let ledger = Ledger::default();
        assert!(poll(ledger.room(0)).is_pending());
        ledger.report(0, None);
        assert!(poll(ledger.room(0)).is_ready());
        assert!(poll(ledger.room(1)).is_pending());
        assert!(ledger.end(Error::timeout("one")));
        assert!(!ledger.end(Error::timeout("two")));
        assert!(poll(ledger.room(1)).is_ready());
        assert_eq!(ledger.ended().map(|it| it.to_string()), Some("one".to_owned()));
    }
}
