//! The traits of sinks, which take events out.

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

/// Takes events out, one batch at a time.
///
/// A type that is a [`Component`](crate::Component) as well needs no [`Connector`](crate::Connector):
/// `export! { sinks: [T] }`. Each instance is then used for one connection; if that is lost, the next connection has
/// an instance of its own.
pub trait Sink: Send + 'static {
    /// The batch that the sink gets: a [`RawBatch`] of bytes, for which the flow names a codec, or a
    /// [`StructuredBatch`](crate::StructuredBatch) of values.
    type Batch: AnyBatch;

    /// The codec of bytes if the flow names none: see [`Source::DEFAULT_CODEC`](crate::Source::DEFAULT_CODEC).
    const DEFAULT_CODEC: Option<&'static str> = None;

    /// `false` for [`NoSink`] only.
    #[doc(hidden)]
    const EXISTS: bool = true;

    /// Returns the deliveries that the sink asks for. Called once, before the first delivery.
    ///
    /// A `Sink` gets one delivery at a time, whatever it asks for. Its batches have the size that it asks for, unless
    /// the flow sets another.
    fn demand(&self) -> Demand {
        Demand::new()
    }

    /// Notifies the sink of the deliveries that it gets. Called once, before the first delivery.
    fn on_grant(&mut self, grant: Grant) {
        let _ = grant;
    }

    /// Delivers the events of `batch`. `Ok(())` states that the peer has all events: dropping an event is not
    /// delivering it. If the peer has some of the events, name the others with [`Exceptions`].
    ///
    /// The future is polled to its end, unless the connection ends first. What has not been answered by then is
    /// delivered again, to the sink of the next connection.
    ///
    /// # Errors
    /// The whole batch was not delivered. The [policy](crate::ErrorPolicy) of the error decides: the batch is
    /// delivered again after a while, as often as the flow allows, or after a reconnect or a restart; or it goes to
    /// the dead letters; or the flow fails.
    fn deliver(&mut self, batch: &Self::Batch) -> impl Future<Output = Delivery> + Send;

    /// Notifies the sink once a second that time has passed. A sink takes one call at a time: a tick that is due
    /// during a delivery follows its answer. If the sink has to keep time meanwhile, make it a [`ParallelSink`], or
    /// give it a task of its own ([`Host::spawn`](crate::Host::spawn)).
    ///
    /// # Errors
    /// An error with the policy to retry is logged, and the next tick is the next attempt. Any other error ends the
    /// connection, as an error of a delivery does.
    fn on_tick(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Ends the sink: no event follows, and every delivery has been answered. The last call.
    ///
    /// Not called if the connection is lost or the flow is stopped without a drain.
    ///
    /// # Errors
    /// After an error with the policy to retry the call is repeated, as often as the flow allows for a delivery. Any
    /// other error ends the connection, as an error of a delivery does.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The sink as the runtime drives it.
    #[doc(hidden)]
    fn into_driver(self) -> Box<dyn DynSink>
    where
        Self: Sized,
    {
        Box::new(SinkDriver::new(self))
    }
}

/// Takes events out, several batches at a time.
///
/// A `ParallelSink` can be used wherever a [`Sink`] is asked for. How many deliveries are in flight, and whether the
/// batches of a stream keep their order, follows from its [`demand`](Self::demand) and from the keys `in_flight` and
/// `ordered` of the flow.
pub trait ParallelSink: Send + Sync + 'static {
    /// See [`Sink::Batch`].
    type Batch: AnyBatch;

    /// See [`Sink::DEFAULT_CODEC`].
    const DEFAULT_CODEC: Option<&'static str> = None;

    /// Returns the deliveries that the sink asks for: by default one at a time, and any number if the flow sets
    /// `in_flight`. Called once, before the first delivery.
    fn demand(&self) -> Demand {
        Demand::new()
    }

    /// Notifies the sink of the deliveries that it gets. Called once, before the first delivery.
    fn on_grant(&mut self, grant: Grant) {
        let _ = grant;
    }

    /// Delivers the events of `batch`, as [`Sink::deliver`] does, while other deliveries may be in flight.
    ///
    /// # Errors
    /// See [`Sink::deliver`].
    fn deliver(&self, batch: &Self::Batch) -> impl Future<Output = Delivery> + Send;

    /// Notifies the sink once a second that time has passed, also while deliveries are in flight, unless the sink
    /// [supports one delivery](Demand::at_most) only. No delivery makes progress before the call has answered: it
    /// must not wait for one of them.
    ///
    /// # Errors
    /// See [`Sink::on_tick`].
    fn on_tick(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Asks the sink to answer the deliveries in flight, because no delivery follows before one of them is answered.
    /// No delivery makes progress before the call has answered: it must not wait for one of them.
    ///
    /// Called if the input has ended or the flow drains while deliveries are in flight and another one could begin. A sink
    /// whose answers wait for a flush has to [gather](Demand::gather) deliveries. Such a sink is also flushed whenever nothing can follow for now: all deliveries that
    /// it was granted are in flight, the next batch of a stream waits for the answer to an earlier one, the flow can
    /// borrow no more memory, or the connector is paused. After a flush, the next one follows a further delivery.
    ///
    /// # Errors
    /// After an error with the policy to retry the call is repeated, as often as the flow allows for a delivery. Any
    /// other error ends the connection, as an error of a delivery does.
    fn flush(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Ends the sink: see [`Sink::close`].
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
