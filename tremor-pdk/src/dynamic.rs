//! The traits of components as trait objects. The runtime calls components of loaded and of linked plugins through
//! these traits.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tremor_abi::{
    batch::{HostBatch, Rejected},
    connector::{Hook, Sides},
};

pub use crate::codec::CodecRequirement;
use crate::{Acks, Batch, Demand, Exception, Grant, Halves, Output, Pull, Result, ValueRef};

/// A boxed future, for calls that are not on the data path.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Connector`](crate::Connector) as a trait object.
pub trait DynConnector: Send {
    /// Returns the codec that the connector needs: see [`Source::Batch`](crate::Source::Batch).
    fn codec_requirement(&self) -> CodecRequirement;
    /// See [`Connector::sides`](crate::Connector::sides).
    fn sides(&self) -> Sides;
    /// See [`Connector::connect`](crate::Connector::connect). The result has only halves that are in `wanted`.
    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>>;
    /// Calls the method of the author's connector that `hook` names.
    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>>;
}

/// The [`Halves`] of a connection as trait objects.
pub type DynHalves = Halves<Box<dyn DynSource>, Box<dyn DynSink>>;

/// A [`Source`](crate::Source) as a trait object.
pub trait DynSource: Send {
    /// Polls the current pull, or starts a pull if there is none.
    ///
    /// While the pull is pending, the source may keep the events outside of `batch`; once the result is ready, they are
    /// in `batch`. The caller cancels a pending pull before it calls any other method.
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>>;
    /// Cancels the pending pull, if any. `batch` gets the events that the pull had added so far.
    fn give_up(&mut self, batch: &mut Batch);
    /// See [`Source::acks`](crate::Source::acks).
    ///
    /// # Errors
    /// Returns an error if the call panicked.
    fn acks(&mut self) -> Result<Option<Box<dyn Acks>>> {
        Ok(None)
    }
    /// See [`Source::close`](crate::Source::close).
    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    /// See [`Source::on_circuit_breaker`](crate::Source::on_circuit_breaker).
    ///
    /// # Errors
    /// Returns the errors of [`Source::on_circuit_breaker`](crate::Source::on_circuit_breaker).
    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        let _ = open;
        Ok(())
    }
}

/// A [`Sink`](crate::Sink) as a trait object.
pub trait DynSink: Send {
    /// See [`Sink::demand`](crate::Sink::demand).
    fn demand(&mut self) -> Demand {
        Demand::new().at_most(1)
    }
    /// See [`Sink::on_grant`](crate::Sink::on_grant). Slots are numbered from 0 to `grant.in_flight - 1`.
    fn on_grant(&mut self, grant: Grant) {
        let _ = grant;
    }
    /// Polls the delivery in `slot`, or starts a delivery if there is none. The rules for `batch` are those of
    /// [`DynSource::poll_pull`]. The answer contains the ranges of events that were not delivered, in ascending order.
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>>;
    /// Cancels the pending delivery in `slot`, if any, and drops its batch.
    fn give_up(&mut self, slot: usize) {
        let _ = slot;
    }
    /// See [`Sink::on_tick`](crate::Sink::on_tick).
    fn on_tick(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    /// See [`ParallelSink::flush`](crate::ParallelSink::flush).
    fn flush(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
    /// See [`Sink::close`](crate::Sink::close).
    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// A [`Codec`](crate::Codec) as a trait object that processes whole batches.
pub trait DynCodec: Send {
    /// Decodes the raw events of a batch in place. May stop once the batch is heavy.
    ///
    /// # Errors
    /// Returns an error if the batch could not be decoded at all. Single messages that could not be
    /// decoded are not errors of the call; they are in `output`.
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;
    /// Encodes the events of `batch` into `encoded`: one message for each event that remains in `batch`.
    ///
    /// # Errors
    /// Returns an error if the batch could not be encoded at all. Single events that could not be
    /// encoded are not errors of the call; they are in `output`.
    fn encode(&mut self, batch: &mut Batch, encoded: &mut Batch, output: &mut Output)
    -> Result<()>;
}

/// Returns whether the metadata of a Kafka record states that the record has no value.
fn is_tombstone(kafka: ValueRef<'_>) -> bool {
    kafka.get("tombstone").is_some()
}

/// Removes the messages that contain no event from `failed`, the list of messages on which a codec failed. Returns the
/// number of removed messages.
///
/// A message with `%kafka.tombstone` in its metadata stays in `failed`: such a Kafka record is an event, which has no
/// value because it deletes its key.
pub fn discard_empty(
    batch: &Batch,
    failed: &mut Vec<Rejected>,
    holds_no_event: impl Fn(&[u8]) -> bool,
) -> usize {
    let before = failed.len();
    failed.retain(|rejected| {
        let is_empty = batch.raw(&rejected.event).is_some_and(&holds_no_event);
        let metadata = batch.metadata(&rejected.event).filter(|_| is_empty);
        !is_empty
            || metadata.is_some_and(|metadata| metadata.get("kafka").is_some_and(is_tombstone))
    });
    before - failed.len()
}
