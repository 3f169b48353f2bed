//! What authors implement to bring events in: sources.

use std::{future::Future, ops::Range, time::Duration};

use crate::{Batch, CodecRequirement, Exception, Result};

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
    /// What it exchanges with the runtime: values, or bytes through a codec.
    const CODEC: CodecRequirement = CodecRequirement::Structured;

    /// Whether there is one: [`NoSource`] is none.
    #[doc(hidden)]
    const EXISTS: bool = true;

    /// Adds what there is to `batch`, which is empty, and returns as soon as there is something,
    /// or once [`Batch::is_full`]. Waits without blocking the thread: see [`Host::blocking`](crate::Host::blocking) and
    /// [`Host::readable`](crate::Host::readable).
    ///
    /// The future may be dropped at any `await` (a pause, the end of the flow, a sink that is down); what
    /// is in the batch by then stays there. So put what was read into the batch, or into `self`, before
    /// the next `await`.
    ///
    /// # Errors
    /// Kind connection lost: the runtime reconnects. Kind bad data: it is counted and the next
    /// pull follows. Others: the connector fails, and is restarted where that may help.
    fn pull(&mut self, batch: &mut Batch) -> impl Future<Output = Result<Pull>> + Send;

    /// What hears how the pulls of this source end: [`Watermarks`](crate::Watermarks), or a type of your
    /// own. None, unless the source has to know. Asked once, before the first pull.
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

/// Hears how the pulls of a source end.
///
/// It is an object of its own, so that it hears promptly whatever the source does: a pull that waits goes
/// on waiting. It shares with the source what both need to know.
pub trait Acks: Send + 'static {
    /// How many pulls may be without an end at a time: the runtime pulls no further before one of them has
    /// ended, unless the others wait for the rest of a message. Operators that hold events hold their pulls:
    /// a bound below what a window holds stops the flow. Asked once.
    fn most_in_flight(&self) -> usize {
        usize::MAX
    }

    /// Whether the source brings again what has failed, as one that reads a file does. An event that fails and
    /// that nothing handles then fails its flow: it would come again and again. A source that only tells its
    /// peer answers `false`. Asked once.
    fn brings_again(&self) -> bool {
        true
    }

    /// Every event of the pull of this number ([`Batch::pull`]) is done with: delivered, dead-lettered or
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
    const EXISTS: bool = false;

    async fn pull(&mut self, _batch: &mut Batch) -> Result<Pull> {
        match *self {}
    }
}
