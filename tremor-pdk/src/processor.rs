//! What authors implement to transform bytes on either side of a codec: preprocessors and
//! postprocessors.

use crate::{Batch, Output, Result};

/// Makes messages of what a source reads, before the codec. Batches come one after the other.
///
/// Implement [`StreamSplitter`](crate::StreamSplitter) instead if the preprocessor finds messages in the bytes of
/// each stream by itself. This trait is for everything else: filters, transformations, decompression. Without a state
/// that outlives a call, [`process`](Preprocessor::process) is all that is needed. With one, implement
/// [`streams`](Preprocessor::streams) and [`holds`](Preprocessor::holds) as well.
///
/// Messages of a stream keep the order of its bytes. The acknowledgement of a pull waits for the bytes of it that are
/// buffered ([`holds`](Preprocessor::holds)). If a call emits something of a stream, the bytes of the stream that are
/// buffered then count as input of that call.
pub trait Preprocessor: Send + 'static {
    /// Replaces the raw events of `batch`, best with [`Batch::cut`]: fragments of a byte stream by
    /// messages or other fragments, messages by messages. Events of no interest stay unchanged. Pass input
    /// that cannot be a message to [`Output::reject_all`].
    ///
    /// An event that [ends a stream](tremor_abi::batch::Event::is_stream_end) completes the buffered message of the stream;
    /// an event that [aborts it](tremor_abi::batch::Event::is_stream_aborted) has the message rejected as one event. The state of
    /// the stream is dropped in either case, and the event is passed on. At the end of a connection, the runtime ends
    /// or aborts all [`streams`](Preprocessor::streams).
    ///
    /// # Errors
    /// The batch could not be processed as a whole: the events that are in it when the call returns leave
    /// by `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;

    /// Returns whether [`process`](Preprocessor::process) has to be called with an empty batch before any other
    /// input. A preprocessor whose output is much larger than its input stops when its batch is heavy, and
    /// continues in that call. [`Rest::cut`](tremor_abi::batch::Rest::cut) does both.
    fn has_more(&self) -> bool {
        false
    }

    /// Returns when [`on_time`](Preprocessor::on_time) has to be called, in ns on
    /// [`Host::monotonic_ns`](crate::Host::monotonic_ns). The runtime calls this method after every call that gets
    /// a batch. A time in the past is allowed. The answer takes constant time, best from a queue of deadlines.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Adds the messages to `batch`, which is empty, that have waited long enough for more bytes of their streams.
    /// `now` is [`Host::monotonic_ns`](crate::Host::monotonic_ns). The call may come late, or too early because an
    /// earlier answer of [`due`](Preprocessor::due) was later changed.
    ///
    /// The messages belong to the pulls whose bytes of the same streams were buffered.
    ///
    /// # Errors
    /// The errors of [`process`](Preprocessor::process).
    fn on_time(&mut self, _now: u64, _batch: &mut Batch, _output: &mut Output) -> Result<()> {
        Ok(())
    }

    /// Returns whether bytes of `stream` are buffered. The runtime calls this method after each call, for the streams
    /// in its batch, if the source wants to know what was delivered. The answer takes constant time.
    ///
    /// The default is for a preprocessor that buffers nothing. Implement this method together with
    /// [`streams`](Preprocessor::streams): otherwise pulls are acknowledged while their bytes are buffered, and a
    /// restart loses these.
    fn holds(&self, _stream: u64) -> bool {
        false
    }

    /// Returns the streams that have a state and have not ended, in any order. The default is for a preprocessor
    /// without state.
    fn streams(&self) -> Vec<u64> {
        Vec::new()
    }
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
