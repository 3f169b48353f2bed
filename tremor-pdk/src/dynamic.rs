//! The authors' traits as trait objects. The runtime uses components through these, whether their plugin is
//! loaded or linked.

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
use crate::{Acks, Batch, Demand, Exception, Grant, Halves, Output, Pull, Result};

/// A future on the heap: for everything off the data path.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Connector`](crate::Connector) as a trait object.
pub trait DynConnector: Send {
    /// Returns the codec that the connector needs: see [`Source::Batch`](crate::Source::Batch).
    fn codec_requirement(&self) -> CodecRequirement;
    /// See [`Connector::sides`](crate::Connector::sides).
    fn sides(&self) -> Sides;
    /// See [`Connector::connect`](crate::Connector::connect). Returns no half that is not wanted.
    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>>;
    /// Calls the method of the author's connector that `hook` names.
    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>>;
}

/// The [`Halves`] of a connection as trait objects.
pub type DynHalves = Halves<Box<dyn DynSource>, Box<dyn DynSink>>;

/// A [`Source`](crate::Source) as a trait object.
pub trait DynSource: Send {
    /// Polls a pull. While it is pending the events of `batch` may live with the source; when it
    /// is ready they are in `batch`. Before anything else is called while it is pending, it is
    /// given up.
    fn poll_pull(&mut self, context: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>>;
    /// Gives a pending pull up; `batch` gets back what it had put into its batch by then. Does
    /// nothing where none is pending.
    fn give_up(&mut self, batch: &mut Batch);
    /// See [`Source::acks`](crate::Source::acks).
    ///
    /// # Errors
    /// It panicked.
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
    /// Those of the source.
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
    /// Polls the delivery in a slot, or starts it; `batch` is as for [`DynSource::poll_pull`]. The answer has the
    /// ranges of events that were not delivered, in order.
    fn poll_deliver(
        &mut self,
        context: &mut Context<'_>,
        slot: usize,
        batch: &mut Batch,
    ) -> Poll<Result<Vec<Exception>>>;
    /// Gives up the delivery that is pending in a slot, if there is one. Its batch does not come back.
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

/// A [`Codec`](crate::Codec) as a trait object, over batches.
pub trait DynCodec: Send {
    /// Decodes the raw events of a batch in place. May stop once the batch is heavy.
    ///
    /// # Errors
    /// The batch as a whole could not be decoded; single messages that could not are in `output`.
    fn decode(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;
    /// Encodes the events of `batch` into `encoded`: a message for each event that is left in `batch`.
    ///
    /// # Errors
    /// The batch as a whole could not be encoded; single events that could not are in `output`.
    fn encode(&mut self, batch: &mut Batch, encoded: &mut Batch, output: &mut Output)
    -> Result<()>;
}

/// Removes messages that hold no event from those that a codec failed on, and returns their number.
///
/// A record without a value, which deletes its key, is an event: it has `tombstone` in its metadata, and stays.
pub fn discard_empty(
    batch: &Batch,
    failed: &mut Vec<Rejected>,
    holds_no_event: impl Fn(&[u8]) -> bool,
) -> usize {
    let before = failed.len();
    failed.retain(|it| {
        let is_empty = batch.raw(&it.event).is_some_and(&holds_no_event);
        let metadata = batch.metadata(&it.event).filter(|_| is_empty);
        !is_empty || metadata.is_some_and(|it| it.get("tombstone").is_some())
    });
    before - failed.len()
}
