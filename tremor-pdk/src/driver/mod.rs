//! Drivers: the trait objects through which the runtime calls the components of a plugin.

mod call;
mod codec;
mod connector;
mod slot;

pub(crate) use self::codec::CodecDriver;
pub(crate) use self::connector::ConnectorDriver;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use self::call::Call;
use crate::{
    Acks, Batch, BatchId, Delivery, Demand, Error, Exception, Grant, ParallelSink, Pull, Result,
    Sink, Source, Undelivered,
    dynamic::{BoxFuture, DynSink, DynSource},
};

/// Calls a source, one pull after the other, without allocating for each pull.
pub(crate) struct SourceDriver<S: Source>(Call<S, S::Batch, Result<Pull>>);

impl<S: Source> SourceDriver<S> {
    pub(crate) fn new(source: S) -> Self {
        Self(Call::new(source))
    }
}

impl<S: Source> DynSource for SourceDriver<S> {
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
        self.0.poll(context, batch, S::pull)
    }

    fn give_up(&mut self, batch: &mut Batch) {
        self.0.give_up(batch);
    }

    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(self.0.component().acks())
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.component().close())
    }

    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        self.0.component().on_circuit_breaker(open)
    }
}

/// Calls a sink, one delivery after the other, without allocating for each delivery.
pub(crate) struct SinkDriver<S: Sink>(Call<S, S::Batch, Delivery>);

impl<S: Sink> SinkDriver<S> {
    pub(crate) fn new(sink: S) -> Self {
        Self(Call::new(sink))
    }
}

impl<S: Sink> DynSink for SinkDriver<S> {
    fn demand(&mut self) -> Demand {
        self.0.component().demand().at_most(1)
    }

    fn on_grant(&mut self, grant: Grant) {
        self.0.component().on_grant(grant);
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        if slot > 0 {
            return Poll::Ready(Err(no_slot(slot)));
        }
        let poll = self.0.poll(context, batch, |sink, batch| sink.deliver(batch));
        poll.map(|delivery| answer(delivery, batch))
    }

    fn give_up(&mut self, _slot: usize) {
        _ = self.0.component();
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.component().on_tick())
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.component().close())
    }
}

/// Calls a sink that accepts several deliveries at a time. Each slot has at most one delivery at a time, and deliveries
/// do not allocate memory for their futures.
pub(crate) struct ParallelSinkDriver<S: ParallelSink> {
    sink: Arc<S>,
    slots: Vec<Call<Arc<S>, S::Batch, Delivery>>,
}

impl<S: ParallelSink> ParallelSinkDriver<S> {
    /// Creates a driver with a single slot. [`DynSink::on_grant`] sets the number of slots.
    pub(crate) fn new(sink: S) -> Self {
        let sink = Arc::new(sink);
        Self { slots: vec![Call::new(sink.clone())], sink }
    }
}

impl<S: ParallelSink> DynSink for ParallelSinkDriver<S> {
    fn demand(&mut self) -> Demand {
        self.sink.demand()
    }

    fn on_grant(&mut self, grant: Grant) {
        self.slots.clear();
        // `get_mut` succeeds, because the slots, which have references to the sink, were removed.
        if let Some(sink) = Arc::get_mut(&mut self.sink) {
            sink.on_grant(grant);
        }
        self.slots.resize_with(grant.in_flight.max(1), || Call::new(self.sink.clone()));
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>> {
        let Some(call) = self.slots.get_mut(slot) else { return Poll::Ready(Err(no_slot(slot))) };
        let poll = call.poll(context, batch, |sink, batch| sink.deliver(batch));
        poll.map(|delivery| answer(delivery, batch))
    }

    fn give_up(&mut self, slot: usize) {
        if let Some(call) = self.slots.get_mut(slot) {
            _ = call.component();
        }
    }

    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.sink.on_tick())
    }

    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.sink.flush())
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.sink.close())
    }
}

fn answer(delivery: Delivery, batch: &Batch) -> Result<Vec<Exception>> {
    match delivery {
        Ok(()) => Ok(Vec::new()),
        Err(Undelivered::All(error)) => Err(error),
        Err(Undelivered::Some { exceptions, batch: rejected_of }) => {
            if rejected_of == BatchId::of(batch) {
                Ok(exceptions)
            } else {
                Err(foreign(batch.len()))
            }
        }
    }
}

/// Returns the error for an answer that names an event of another batch. It is then unknown which events the peer has
/// received.
#[cold]
fn foreign(events: usize) -> Error {
    Error::internal(format_args!(
        "the sink answered a delivery of {events} events and rejected an event of another batch; reject events of the \
         batch that `deliver` was called with"
    ))
}

/// Returns the error for a delivery in a slot that does not exist.
#[cold]
fn no_slot(slot: usize) -> Error {
    Error::internal(format_args!("the sink has no slot {slot} for a delivery"))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        future::poll_fn,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Waker},
    };

    use tremor_abi::batch::HostBatch;

    use super::DynSink;
    use crate::{
        Batch, Delivery, Demand, Error, ErrorKind, EventRef, Exceptions, Grant, ParallelSink,
        RawBatch, Sink,
    };

    /// A sink that answers a message once the test has set its answer, and counts the deliveries in flight.
    #[derive(Clone, Default)]
    struct ManualSink {
        answers: Arc<Mutex<HashMap<Vec<u8>, Delivery>>>,
        in_flight: Arc<AtomicUsize>,
    }

    struct Entered<'d>(&'d AtomicUsize);

    impl Drop for Entered<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl ParallelSink for ManualSink {
        type Batch = RawBatch;

        fn demand(&self) -> Demand {
            Demand::new().at_most(3)
        }

        async fn deliver(&self, batch: &RawBatch) -> Delivery {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
            let _entered = Entered(&self.in_flight);
            let message = batch.iter().map(crate::RawEvent::raw).collect::<Vec<_>>().concat();
            poll_fn(|_| match self.answers.lock().unwrap().remove(&message) {
                Some(answer) => Poll::Ready(answer),
                None => Poll::Pending,
            })
            .await
        }
    }

    fn batch(message: &[u8]) -> Batch {
        let mut batch = Batch::new();
        batch.push_message(message);
        batch
    }

    #[test]
    fn rejected_event_of_another_batch_is_an_error() {
        let [delivered, other] = [batch(b"a"), batch(b"b")];
        let events = [&delivered, &other].map(|batch| batch.get(0).unwrap());
        let rejected = |events: &[EventRef<'_>]| {
            let exceptions: Exceptions =
                events.iter().map(|event| (*event, Error::full("no"))).collect();
            super::answer(exceptions.into(), &delivered).map_err(|error| error.kind())
        };
        assert_eq!(rejected(&events[..1]).map(|exceptions| exceptions.len()), Ok(1));
        assert_eq!(rejected(&events[1..]), Err(ErrorKind::INTERNAL));
        assert_eq!(rejected(&events), Err(ErrorKind::INTERNAL));
    }

    #[test]
    fn slots_are_independent_and_cancelled_delivery_is_dropped() {
        let manual = ManualSink::default();
        let mut sink: Box<dyn DynSink> = manual.clone().into_driver();
        assert_eq!(sink.demand().most_in_flight, 3);
        sink.on_grant(Grant::new(3, true, None));
        let mut context = Context::from_waker(Waker::noop());
        let mut batches = [b"a", b"b", b"c"].map(|message| batch(message));
        for (slot, batch) in batches.iter_mut().enumerate() {
            assert!(sink.poll_deliver(&mut context, slot, batch).is_pending());
        }
        assert_eq!(manual.in_flight.load(Ordering::Relaxed), 3);
        manual.answers.lock().unwrap().insert(b"b".into(), Ok(()));
        manual.answers.lock().unwrap().insert(b"c".into(), Err(Error::full("no").into()));
        assert!(sink.poll_deliver(&mut context, 0, &mut batches[0]).is_pending());
        assert!(matches!(
            sink.poll_deliver(&mut context, 2, &mut batches[2]),
            Poll::Ready(Err(error)) if error == Error::full("no")
        ));
        assert!(matches!(
            sink.poll_deliver(&mut context, 1, &mut batches[1]),
            Poll::Ready(Ok(exceptions)) if exceptions.is_empty()
        ));
        assert_eq!(batches[1].events().len(), 1, "the batch was returned");
        sink.give_up(0);
        assert_eq!(manual.in_flight.load(Ordering::Relaxed), 0);
        // The slot accepts the next delivery.
        manual.answers.lock().unwrap().insert(b"d".into(), Ok(()));
        assert!(sink.poll_deliver(&mut context, 0, &mut batch(b"d")).is_ready());
        let none = sink.poll_deliver(&mut context, 3, &mut batch(b"e"));
        assert!(matches!(none, Poll::Ready(Err(error)) if error.message().contains("no slot 3")));
    }

    #[test]
    fn parallel_sink_has_one_slot_before_its_grant() {
        let mut sink: Box<dyn DynSink> = ManualSink::default().into_driver();
        let mut context = Context::from_waker(Waker::noop());
        assert!(sink.poll_deliver(&mut context, 0, &mut batch(b"a")).is_pending());
        assert!(sink.poll_deliver(&mut context, 1, &mut batch(b"b")).is_ready(), "an error");
    }
}
