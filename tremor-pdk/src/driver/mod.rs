//! Drivers: they turn what authors wrote into the trait objects that the runtime works with.

mod call;
mod codec;
mod connector;
mod slot;

pub(crate) use self::codec::CodecDriver;
pub use self::connector::ConnectorDriver;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use self::call::Call;
use crate::{
    Acks, Batch, Delivery, Error, Exceptions, ParallelSink, Pull, Result, Signal, Sink, Source,
    Undelivered,
    dynamic::{BoxFuture, DynSink, DynSource},
};

/// Drives a source: one pull after the other, without an allocation.
pub struct SourceDriver<S: Source>(Call<S, Result<Pull>>);

impl<S: Source> SourceDriver<S> {
    /// A driver of this source.
    pub fn new(source: S) -> Self {
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

/// Drives a sink: one delivery after the other, without an allocation.
pub struct SinkDriver<S: Sink>(Call<S, Delivery>);

impl<S: Sink> SinkDriver<S> {
    /// A driver of this sink.
    pub fn new(sink: S) -> Self {
        Self(Call::new(sink))
    }
}

impl<S: Sink> DynSink for SinkDriver<S> {
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Exceptions>> {
        if slot > 0 {
            return Poll::Ready(Err(no_slot(slot)));
        }
        let poll = self.0.poll(context, batch, |sink, batch| sink.deliver(batch));
        poll.map(|delivery| answer(delivery, batch))
    }

    fn give_up(&mut self, _slot: usize) {
        _ = self.0.component();
    }

    fn on_signal(&mut self, signal: Signal) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.component().on_signal(signal))
    }
}

/// Drives a sink that takes several deliveries at a time: one after the other in each slot, without an
/// allocation.
pub struct ParallelSinkDriver<S: ParallelSink> {
    sink: Arc<S>,
    slots: Vec<Call<Arc<S>, Delivery>>,
}

impl<S: ParallelSink> ParallelSinkDriver<S> {
    /// A driver of this sink, with one slot until it is asked for more.
    pub fn new(sink: S) -> Self {
        let sink = Arc::new(sink);
        Self { slots: vec![Call::new(sink.clone())], sink }
    }
}

impl<S: ParallelSink> DynSink for ParallelSinkDriver<S> {
    fn in_flight(&mut self, wanted: usize) -> usize {
        let count = self.sink.most_in_flight().min(wanted).max(1);
        self.slots.resize_with(count, || Call::new(self.sink.clone()));
        count
    }

    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Exceptions>> {
        let Some(call) = self.slots.get_mut(slot) else { return Poll::Ready(Err(no_slot(slot))) };
        let poll = call.poll(context, batch, |sink, batch| sink.deliver(batch));
        poll.map(|delivery| answer(delivery, batch))
    }

    fn give_up(&mut self, slot: usize) {
        if let Some(call) = self.slots.get_mut(slot) {
            _ = call.component();
        }
    }

    fn on_signal(&mut self, signal: Signal) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.sink.on_signal(signal))
    }
}

fn answer(delivery: Delivery, batch: &Batch) -> Result<Exceptions> {
    match delivery {
        Ok(()) => Ok(Exceptions::none()),
        Err(Undelivered::All(error)) => Err(error),
        Err(Undelivered::Some(exceptions)) => exceptions.about(batch.len()),
    }
}

/// The host polls a delivery in a slot that there is not.
#[cold]
fn no_slot(slot: usize) -> Error {
    Error::internal(format_args!("the sink has no slot {slot} for a delivery"))
}
