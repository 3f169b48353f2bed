//! Drivers: they turn what authors wrote into the trait objects that the runtime works with.

mod call;
mod codec;
mod connector;
mod slot;

pub(crate) use self::codec::CodecDriver;
pub use self::connector::ConnectorDriver;

use std::task::{Context, Poll};

use self::call::Call;
use crate::{
    Batch, Delivery, Exceptions, Pull, Result, Signal, Sink, Source, Undelivered,
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

    fn is_transactional(&self) -> bool {
        self.0.component_ref().is_some_and(Source::is_transactional)
    }

    fn ack(&mut self, pull: u64) -> Result<()> {
        self.0.component().ack(pull)
    }

    fn fail(&mut self, pull: u64) -> Result<()> {
        self.0.component().fail(pull)
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
        batch: &mut Batch,
    ) -> Poll<Result<Exceptions>> {
        let poll = self.0.poll(context, batch, |sink, batch| sink.deliver(batch));
        poll.map(|delivery| match delivery {
            Ok(()) => Ok(Exceptions::none()),
            Err(Undelivered::All(error)) => Err(error),
            Err(Undelivered::Some(exceptions)) => exceptions.about(batch.len()),
        })
    }

    fn on_signal(&mut self, signal: Signal) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.component().on_signal(signal))
    }
}
