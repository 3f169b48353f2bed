//! What authors implement to bring events in: sources.

use std::{future::Future, ops::Range, time::Duration};

use crate::{AnyBatch, Exception, RawBatch, Result};

/// What a pull came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// What there is lies in the batch; pull again.
    Events,
    /// Nothing just now: pull again after this time, or when the runtime sees fit.
    Idle(Duration),
    /// There is nothing more and there never will be: all streams end.
    Finished,
}

/// Brings events in.
///
/// A type that is a [`Component`](crate::Component) as well needs no [`Connector`](crate::Connector):
/// `export! { sources: [T] }`. Each instance is then used for one connection, and where that is lost, the
/// next is made anew.
pub trait Source: Send + 'static {
    /// The batch that the source fills: a [`RawBatch`] of bytes, for which the flow names a codec, or a
    /// [`StructuredBatch`](crate::StructuredBatch) of values.
    type Batch: AnyBatch;

    /// The codec of bytes if the flow names none. Without it, the flow has to name one.
    ///
    /// Does not compile beside a [`StructuredBatch`](crate::StructuredBatch), which needs no codec:
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

    /// Whether there is one: [`NoSource`] is none.
    #[doc(hidden)]
    const EXISTS: bool = true;

    /// Adds what there is to `batch`, which is empty, and returns as soon as there is something,
    /// or once [`is_full`](crate::TypedBatch::is_full). Waits without blocking the thread: see [`Host::blocking`](crate::Host::blocking) and
    /// [`Host::readable`](crate::Host::readable).
    ///
    /// The future may be dropped at any `await` (a pause, the end of the flow, a sink that is down); what
    /// is in the batch by then stays there. So put what was read into the batch, or into `self`, before
    /// the next `await`.
    ///
    /// # Errors
    /// Kind connection lost: the runtime reconnects. Kind bad data: it is counted and the next
    /// pull follows. Others: the connector fails, and is restarted where that may help.
    fn pull(&mut self, batch: &mut Self::Batch) -> impl Future<Output = Result<Pull>> + Send;

    /// Returns the object that is notified of the ends of pulls: [`Watermarks`](crate::Watermarks) for a source with
    /// positions, [`Tickets`](crate::Tickets) for a peer that wants an answer to each message, or a type of your own.
    /// `None` if the source does not need to know. Called once, before the first pull.
    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        None
    }

    /// The last call: it is not pulled any more, and its [`Acks`] have heard all that they will hear. A
    /// chance to commit what was acknowledged. The runtime waits for five seconds at most, and for one second
    /// if the flow was stopped, as after a drain that timed out.
    ///
    /// # Errors
    /// Where the flow ends, the connector fails with it.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// A sink downstream is down (`true`): pulling is of no use until it is back (`false`).
    ///
    /// # Errors
    /// As [`pull`](Source::pull).
    fn on_circuit_breaker(&mut self, open: bool) -> Result<()> {
        let _ = open;
        Ok(())
    }
}

/// Limits of what a source has in flight: the events of pulls that have not ended.
///
/// The runtime does not pull while a limit is reached, unless preprocessors wait for the remainder of a message. A pull
/// is asked for no more than a limit, so that less than twice the limits is in flight.
///
/// Operators keep the pulls of events that they buffer open. With a limit below what a window buffers, the flow stops:
/// the log has a warning after 30 seconds, which names the operator's pipeline and `key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Number of events from which the source is not pulled. A fragment of a stream counts as an event.
    pub events: u64,
    /// Number of bytes from which the source is not pulled, counted as [`Limit::bytes`](crate::Limit::bytes) is.
    pub bytes: u64,
    /// Configuration key that sets the limits, for the warning; empty if there is none.
    pub key: &'static str,
}

impl InFlight {
    /// No limits.
    pub const UNLIMITED: Self = Self { events: u64::MAX, bytes: u64::MAX, key: "" };
}

impl Default for InFlight {
    /// Returns [`InFlight::UNLIMITED`].
    fn default() -> Self {
        Self::UNLIMITED
    }
}

/// Hears how the pulls of a source end.
///
/// It is an object of its own, so that it hears promptly whatever the source does: a pull that waits goes
/// on waiting. It shares with the source what both need to know.
pub trait Acks: Send + 'static {
    /// Returns the limits of what the source has in flight; no limits unless implemented. Called once, before the first
    /// pull.
    fn most_in_flight(&self) -> InFlight {
        InFlight::UNLIMITED
    }

    /// Whether the source brings again what has failed, as one that reads a file does. An event that fails and
    /// that nothing handles then fails its flow: it would come again and again. A source that only tells its
    /// peer answers `false`. Asked once.
    fn brings_again(&self) -> bool {
        true
    }

    /// Every event of the pull of this number ([`TypedBatch::pull`](crate::TypedBatch::pull)) is done with: delivered, dead-lettered or
    /// discarded on purpose. Pulls end in any order.
    ///
    /// # Errors
    /// As [`Source::pull`].
    fn ack(&mut self, pull: u64) -> Result<()>;

    /// These messages of the pull of this number could not be decoded, or preprocessors could not make
    /// anything of them, and the errors say why. [`Acks::fail`] of the pull follows, and names them as well: it
    /// is of no use to bring them again as they are. They are named by their positions in the batch that the
    /// pull filled, in order. A message is not among them where something else of it has failed as well.
    ///
    /// # Errors
    /// As [`Source::pull`].
    fn undecodable(&mut self, pull: u64, messages: &[Exception]) -> Result<()> {
        let _ = (pull, messages);
        Ok(())
    }

    /// These events of the pull of this number could not be delivered, and its others are done with. They
    /// are named by their positions in the batch that the pull filled, in order. All events of the pull are
    /// named where the runtime does not know which: of messages that it put together, say.
    ///
    /// # Errors
    /// As [`Source::pull`].
    fn fail(&mut self, pull: u64, events: &[Range<usize>]) -> Result<()>;
}

/// The source of a connector that is only a sink. There is no value of this type.
#[derive(Clone, Copy, Debug)]
pub enum NoSource {}

impl Source for NoSource {
    type Batch = RawBatch;

    const EXISTS: bool = false;

    async fn pull(&mut self, _batch: &mut RawBatch) -> Result<Pull> {
        match *self {}
    }
}
