//! The traits of sources, which read events from external systems.

use std::{future::Future, ops::Range, time::Duration};

use crate::{AnyBatch, Exception, RawBatch, Result};

/// The result of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// The events that were available are in the batch. The runtime pulls again.
    Events,
    /// No events are available now. The runtime pulls again after this time, or earlier.
    Idle(Duration),
    /// The source will never have more events. The runtime ends all streams of the source.
    Finished,
}

/// Reads events from an external system.
///
/// A source that is also a [`Component`](crate::Component) needs no [`Connector`](crate::Connector):
/// `export! { sources: [T] }`. Each instance is then used for one connection. If the connection is lost, the next
/// connection gets a new instance.
///
/// A source is not pulled while it is paused, while a sink is down, and while too many of its events are in flight. For
/// work that must not wait until then, use [`Host::upkeep`](crate::Host::upkeep).
pub trait Source: Send + 'static {
    /// The batch that the source fills: a [`RawBatch`] of bytes, for which the flow names a codec, or a
    /// [`StructuredBatch`](crate::StructuredBatch) of values.
    type Batch: AnyBatch;

    /// The codec that decodes the bytes if the flow names no codec. If `None`, the flow has to name a codec.
    ///
    /// A source of values must not set this constant, because a [`StructuredBatch`](crate::StructuredBatch) needs no
    /// codec. The following does not compile:
    ///
    /// ```compile_fail,E0080
    /// # mod plugin {
    /// # use tremor_pdk::{NoConfig, prelude::*};
    /// # pub struct Hello;
    /// # impl Component for Hello {
    /// #     const NAME: &str = "hello";
    /// #     type Config = NoConfig;
    /// #     fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> { Ok(Self) }
    /// # }
    /// impl Source for Hello {
    ///     type Batch = StructuredBatch;
    ///     const DEFAULT_CODEC: Option<&str> = Some("json");
    /// #   async fn pull(&mut self, _batch: &mut StructuredBatch) -> Result<Pull> { Ok(Pull::Finished) }
    /// }
    /// # tremor_pdk::export! { sources: [Hello] }
    /// # }
    /// ```
    const DEFAULT_CODEC: Option<&'static str> = None;

    /// `false` for [`NoSource`] only.
    #[doc(hidden)]
    const EXISTS: bool = true;

    /// Adds the available events to `batch`, which is empty.
    ///
    /// Return as soon as the batch has an event and no more events are available, or once
    /// [`is_full`](crate::TypedBatch::is_full) returns `true`. To wait without blocking the thread, use
    /// [`Host::blocking`](crate::Host::blocking) or [`Host::readable`](crate::Host::readable).
    ///
    /// The future may be dropped at any `await`: for a pause, at the end of the flow, or because a sink is down.
    /// Events that are in the batch at that time are kept. Therefore put all data that was read into the batch, or
    /// into `self`, before the next `await`.
    ///
    /// # Errors
    /// The [policy](crate::ErrorPolicy) of the error decides what follows. With the policy to retry, the runtime pulls
    /// again after a delay that grows. With the policy for dead letters, the runtime counts the error and pulls again.
    /// With the policy to reconnect, the runtime reconnects. With any other policy, the connector is restarted, or its
    /// flow fails.
    fn pull(&mut self, batch: &mut Self::Batch) -> impl Future<Output = Result<Pull>> + Send;

    /// Returns the object that is notified when pulls end. Called once, before the first pull.
    ///
    /// Return [`Watermarks`](crate::Watermarks) for a source with positions, [`Tickets`](crate::Tickets) for a peer
    /// that expects an answer to each message, or a type of your own; `None` if the source needs no notification.
    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        None
    }

    /// Closes the source. A source that commits its position commits everything that was acknowledged during this call.
    ///
    /// This is the last call: no pull and no acknowledgement follows. The runtime waits for at most five seconds, or
    /// one second if the flow was stopped without a drain or after a drain that timed out.
    ///
    /// # Errors
    /// At the end of the flow, an error fails the connector.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Notifies the source of a change: `open` is `true` if a sink that the source feeds is down, and `false` if the
    /// sink works again. While a sink is down, the runtime does not pull.
    ///
    /// # Errors
    /// Returns the errors of [`pull`](Source::pull).
    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        let _ = open;
        Ok(())
    }
}

/// Limits of the events that a source has in flight, which are the events of pulls that have not ended.
///
/// The runtime does not pull while a limit is reached, unless preprocessors wait for the remainder of a message. The
/// [limit](crate::Limit) of a single pull never exceeds these limits, so that less than twice these limits is in
/// flight.
///
/// A pull does not end while an operator buffers one of its events. If a limit is lower than the number of events or
/// bytes that a window buffers, the source is not pulled again, and the window gets no more events. After 30 seconds,
/// the log contains a warning that names the pipeline of the operator and `key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Number of events in flight at which the source is no longer pulled. A fragment of a stream counts as an event.
    pub events: usize,
    /// Number of bytes in flight at which the source is no longer pulled, counted like
    /// [`Limit::bytes`](crate::Limit::bytes).
    pub bytes: usize,
    /// Configuration key that sets the limits, for the warning; empty if there is none.
    pub key: &'static str,
}

impl InFlight {
    /// No limits.
    pub const UNLIMITED: Self = Self { events: usize::MAX, bytes: usize::MAX, key: "" };
}

impl Default for InFlight {
    /// Returns [`InFlight::UNLIMITED`].
    fn default() -> Self {
        Self::UNLIMITED
    }
}

/// Receives the results of the pulls of a source.
///
/// The receiver is separate from the source, so that the receiver is notified at once even if the source is waiting in
/// a pull. Share the state that both need, for example in an `Arc`.
pub trait Acks: Send + 'static {
    /// Returns the limits of the events that the source has in flight. By default, there are no limits. Called once,
    /// before the first pull.
    fn most_in_flight(&self) -> InFlight {
        InFlight::UNLIMITED
    }

    /// Returns whether the source reads failed events again, as a source that reads a file does. Called once.
    ///
    /// If `true`, the flow fails if an event fails and its failure is not handled, because the event would be read
    /// again and again. Return `false` if the source only reports failures to its peer. The default is `true`.
    fn replays_failed(&self) -> bool {
        true
    }

    /// Acknowledges a pull: every event of the pull `pull` ([`TypedBatch::pull`](crate::TypedBatch::pull)) was
    /// delivered, dead-lettered or discarded on purpose. Pulls end in any order.
    ///
    /// # Errors
    /// Returns the errors of [`Source::pull`].
    fn ack(&mut self, pull: u64) -> Result<()>;

    /// Reports messages of the pull `pull` that a preprocessor or the codec could not decode, each with its error.
    ///
    /// The runtime then calls [`Acks::fail`] for the same pull and these messages. If the source redelivered the same
    /// messages, decoding them would fail again. Messages are identified by their positions in the batch that the pull
    /// filled, in ascending order. A message of several events is not reported here if one of its events failed for a
    /// different reason.
    ///
    /// # Errors
    /// Returns the errors of [`Source::pull`].
    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        let _ = (pull, messages);
        Ok(())
    }

    /// Fails a pull: `events` could not be delivered. All other events of the pull `pull` were delivered, dead-lettered
    /// or discarded on purpose.
    ///
    /// Events are identified by their positions in the batch that the pull filled, in ascending order. The ranges
    /// contain all events of the pull if the runtime does not know which events failed, for example because it joined
    /// messages.
    ///
    /// # Errors
    /// Returns the errors of [`Source::pull`].
    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()>;

    /// Fails a pull of which it is unknown which events failed. `events` contains all events of the pull.
    #[doc(hidden)]
    fn fail_unknown(&mut self, pull: u64, events: Range<usize>) -> Result<()> {
        self.fail(pull, std::slice::from_ref(&events))
    }
}

/// The source of a connector that is only a sink. The type has no value.
#[derive(Clone, Copy, Debug)]
pub enum NoSource {}

impl Source for NoSource {
    type Batch = RawBatch;

    const EXISTS: bool = false;

    async fn pull(&mut self, _batch: &mut RawBatch) -> Result<Pull> {
        match *self {}
    }
}
