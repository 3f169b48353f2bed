//! What authors implement to transform bytes on either side of a codec: preprocessors and
//! postprocessors.

use crate::{Batch, Output, Result};

/// Puts messages together from what a source brought, before the codec. It keeps a state for each
/// stream, and sees batches one after the other.
///
/// What it puts out of a stream is in the order of what it was given, and it holds back no more than it
/// has to: the acknowledgement of a pull waits for what is held of it ([`holds`]). What is held when a
/// call for a stream has put something out is taken to be of the input of that call.
///
/// [`holds`]: Preprocessor::holds
pub trait Preprocessor: Send + 'static {
    /// Replaces the raw events of `batch`, best with [`Batch::cut`]: fragments of a byte stream by
    /// messages or other fragments, messages by messages. What it has no use for it leaves as it
    /// is. What cannot be a message it hands to [`Output::reject_all`].
    ///
    /// An event that [ends a stream](crate::Event::is_stream_end) completes what is held of that stream;
    /// one that [aborts it](crate::Event::is_stream_aborted) has it rejected as one event. Either
    /// makes its state forgotten, and is handed on. So ends a connection, too: the runtime asks for the
    /// [`streams`](Preprocessor::streams), and ends or aborts all of them.
    ///
    /// # Errors
    /// The batch could not be processed as a whole: what is in it when the call returns leaves by
    /// `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;

    /// Whether [`process`](Preprocessor::process) is to be called again, with an empty batch, before any
    /// other input: a preprocessor that makes much of little stops once a batch is heavy, and keeps the
    /// rest of its input for that call. [`Rest::cut`](crate::abi::batch::Rest::cut) does both.
    fn has_more(&self) -> bool {
        false
    }

    /// Whether it holds bytes of a stream that have not come out yet. Asked after every call of
    /// [`process`](Preprocessor::process), where the source wants to know what was delivered.
    fn holds(&self, stream: u64) -> bool {
        self.streams().contains(&stream)
    }

    /// The streams that have begun and not ended: those that it keeps any state of, in any order. None
    /// where every event stands by itself.
    fn streams(&self) -> Vec<u64>;
}

/// Frames and transforms messages after the codec. It sees the batches of one sink, one after
/// the other.
pub trait Postprocessor: Send + 'static {
    /// Returns the bytes after every message by which a receiver finds its end, if appending them is all that this
    /// postprocessor does. They are then appended with the encoding, and [`process`](Postprocessor::process) is not
    /// called. A message that contains these bytes leaves by `err`, since the receiver would take what follows them
    /// for another message.
    fn suffix(&self) -> Option<&[u8]> {
        None
    }

    /// Replaces the raw events of `batch`, best with [`Batch::cut`], one by one: the events that
    /// it leaves are in the order of those that it got, and where it rejects one, it leaves none in
    /// its place.
    ///
    /// # Errors
    /// The batch could not be processed as a whole: it leaves by `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;
}
