//! The traits of sinks, which write events to external systems.

mod answer;
mod demand;

use std::future::Future;

pub(crate) use self::answer::BatchId;
pub use self::{
    answer::{Delivery, Exception, Exceptions, Undelivered},
    demand::{BatchSize, Demand, Grant},
};
use crate::{
    AnyBatch, RawBatch, Result,
    driver::{ParallelSinkDriver, SinkDriver},
    dynamic::DynSink,
};

/// Writes events to an external system, one batch at a time.
///
/// A sink that is also a [`Component`](crate::Component) needs no [`Connector`](crate::Connector):
/// `export! { sinks: [T] }`. Each instance is then used for one connection. If the connection is lost, the next
/// connection gets a new instance.
pub trait Sink: Send + 'static {
    /// The batch that the sink gets: a [`RawBatch`] of bytes, for which the flow names a codec, or a
    /// [`StructuredBatch`](crate::StructuredBatch) of values.
    type Batch: AnyBatch;

    /// The codec of bytes if the flow names no codec: see [`Source::DEFAULT_CODEC`](crate::Source::DEFAULT_CODEC).
    const DEFAULT_CODEC: Option<&'static str> = None;

    /// `false` for [`NoSink`] only.
    #[doc(hidden)]
    const EXISTS: bool = true;

    /// Returns the delivery limits that the sink prefers. Called once, before the first delivery.
    ///
    /// A `Sink` gets one delivery at a time, even if its demand is higher. Batches have the size that the sink asks
    /// for, unless the flow sets the key `batch`.
    fn demand(&self) -> Demand {
        Demand::new()
    }

    /// Notifies the sink of the limits that the runtime has set. Called once, before the first delivery.
    fn on_grant(&mut self, grant: Grant) {
        let _ = grant;
    }

    /// Delivers the events of `batch`.
    ///
    /// Return `Ok(())` only if the peer has received all events. If the peer has received only some of the events, name
    /// the events that it has not received with [`Exceptions`].
    ///
    /// The future is polled until it completes, unless the connection ends first. A batch that was not answered before
    /// the end of the connection is delivered again, to the sink of the next connection.
    ///
    /// # Errors
    /// After an error, no event of the batch counts as delivered. The [policy](crate::ErrorPolicy) of the error decides
    /// what follows: the batch is delivered again after a delay, as often as the flow allows, or after a reconnect or a
    /// restart; or it goes to the dead letters; or the flow fails.
    fn deliver(&mut self, batch: &Self::Batch) -> impl Future<Output = Delivery> + Send;

    /// Called about once a second, for work that depends on time.
    ///
    /// The runtime makes one call at a time: if a tick is due during a delivery, `on_tick` is called after the answer
    /// to the delivery. If the sink needs ticks during deliveries, make it a [`ParallelSink`], or
    /// [spawn](crate::Host::spawn) a task.
    ///
    /// # Errors
    /// An error with the policy to retry is logged, and the next tick is the next attempt. Any other error ends the
    /// connection, as an error of a delivery does.
    fn on_tick(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Closes the sink. This is the last call. Every delivery was answered before.
    ///
    /// The runtime does not call this method if the connection is lost or the flow is stopped without a drain.
    ///
    /// # Errors
    /// After an error with the policy to retry, the call is repeated, as often as the flow allows for a delivery. Any
    /// other error ends the connection, as an error of a delivery does.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Wraps the sink in the driver through which the runtime calls it.
    #[doc(hidden)]
    fn into_driver(self) -> Box<dyn DynSink>
    where
        Self: Sized,
    {
        Box::new(SinkDriver::new(self))
    }
}

/// Writes events to an external system, several batches at a time.
///
/// A `ParallelSink` can be used wherever a [`Sink`] is required. Its [`demand`](Self::demand) and the keys
/// `in_flight` and `ordered` of the flow determine the number of deliveries in flight, and whether the batches of a
/// stream keep their order.
pub trait ParallelSink: Send + Sync + 'static {
    /// See [`Sink::Batch`].
    type Batch: AnyBatch;

    /// See [`Sink::DEFAULT_CODEC`].
    const DEFAULT_CODEC: Option<&'static str> = None;

    /// Returns the delivery limits that the sink prefers. Called once, before the first delivery.
    ///
    /// The default is one delivery at a time, or the number that the flow sets with `in_flight`.
    fn demand(&self) -> Demand {
        Demand::new()
    }

    /// Notifies the sink of the limits that the runtime has set. Called once, before the first delivery.
    fn on_grant(&mut self, grant: Grant) {
        let _ = grant;
    }

    /// Delivers the events of `batch`, as [`Sink::deliver`] does, while other deliveries may be in flight.
    ///
    /// # Errors
    /// See [`Sink::deliver`].
    fn deliver(&self, batch: &Self::Batch) -> impl Future<Output = Delivery> + Send;

    /// Called about once a second, for work that depends on time.
    ///
    /// The call may happen while deliveries are in flight, unless the sink [supports only one
    /// delivery](Demand::at_most). No delivery makes progress until the call returns, so the call must not wait for a
    /// delivery.
    ///
    /// # Errors
    /// See [`Sink::on_tick`].
    fn on_tick(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Asks the sink to answer the deliveries in flight now, because no further delivery begins until one of them is
    /// answered.
    ///
    /// No delivery makes progress until the call returns, so the call must not wait for a delivery.
    ///
    /// The runtime calls `flush` if the input has ended or the flow drains, while deliveries are in flight and the
    /// limits would allow another delivery. A sink that [gathers](Demand::gather) deliveries is also flushed while no
    /// further delivery can begin for one of these reasons: all granted deliveries are in flight, the next batch of a
    /// stream waits for the answer to an earlier batch of the stream, the flow cannot borrow more memory, or the
    /// connector is paused. A sink that answers deliveries only when it is flushed must use [`Demand::gather`]. After a
    /// flush, the runtime flushes again only after a further delivery has begun.
    ///
    /// # Errors
    /// After an error with the policy to retry, the call is repeated, as often as the flow allows for a delivery. Any
    /// other error ends the connection, as an error of a delivery does.
    fn flush(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Closes the sink: see [`Sink::close`].
    ///
    /// # Errors
    /// See [`Sink::close`].
    fn close(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

impl<S: ParallelSink> Sink for S {
    type Batch = S::Batch;

    const DEFAULT_CODEC: Option<&'static str> = S::DEFAULT_CODEC;

    fn demand(&self) -> Demand {
        ParallelSink::demand(self)
    }

    fn on_grant(&mut self, grant: Grant) {
        ParallelSink::on_grant(self, grant);
    }

    async fn deliver(&mut self, batch: &S::Batch) -> Delivery {
        ParallelSink::deliver(self, batch).await
    }

    async fn on_tick(&mut self) -> Result<()> {
        ParallelSink::on_tick(self).await
    }

    async fn close(&mut self) -> Result<()> {
        ParallelSink::close(self).await
    }

    fn into_driver(self) -> Box<dyn DynSink> {
        Box::new(ParallelSinkDriver::new(self))
    }
}

/// The sink of a connector that is only a source. The type has no value.
#[derive(Clone, Copy, Debug)]
pub enum NoSink {}

impl Sink for NoSink {
    type Batch = RawBatch;

    const EXISTS: bool = false;

    async fn deliver(&mut self, _batch: &RawBatch) -> Delivery {
        match *self {}
    }
}
