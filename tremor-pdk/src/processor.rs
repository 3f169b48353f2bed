//! The traits of preprocessors and postprocessors, which transform bytes before decoding and after encoding.

use crate::{Batch, Output, Result};

/// Turns the bytes that a source reads into messages, before the codec decodes them.
///
/// Implement [`StreamSplitter`](crate::StreamSplitter) instead if the preprocessor finds the messages of a stream with
/// nothing but the bytes of that stream. Implement this trait for other preprocessors, such as filters, transformations
/// and decompression. A preprocessor that keeps no state between calls needs only [`process`](Preprocessor::process). A
/// preprocessor with state must also implement [`streams`](Preprocessor::streams) and
/// [`buffers`](Preprocessor::buffers).
///
/// Messages of a stream keep the order of its bytes. A pull is acknowledged only after its bytes are no longer buffered
/// ([`buffers`](Preprocessor::buffers)). If a call emits an event of a stream, the bytes of that stream that remain
/// buffered are attributed to the pull of that call.
pub trait Preprocessor: Send + 'static {
    /// Replaces the raw events of `batch`, preferably with [`Batch::cut`].
    ///
    /// Fragments of a byte stream become messages or other fragments, and messages become messages. Leave events
    /// unchanged that the preprocessor does not handle. Pass input that cannot be a message to
    /// [`Output::reject_all`].
    ///
    /// An event that [ends a stream](tremor_abi::batch::Event::is_stream_end) completes the buffered message of the
    /// stream. For an event that [aborts a stream](tremor_abi::batch::Event::is_stream_aborted), reject the buffered
    /// message as one event. In both cases, drop the state of the stream and pass the event on. At the end of a
    /// connection, the runtime ends or aborts all [`streams`](Preprocessor::streams).
    ///
    /// # Errors
    /// Returns an error if the batch could not be processed. All events that `batch` contains when the call returns
    /// then leave by `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;

    /// Returns whether [`process`](Preprocessor::process) has to be called with an empty batch before the next input.
    ///
    /// A preprocessor whose output is much larger than its input stops when its batch is heavy, and continues in the
    /// next call, which gets an empty batch. [`RemainingInput::cut`](tremor_abi::batch::RemainingInput::cut) implements
    /// this.
    fn has_more(&self) -> bool {
        false
    }

    /// Returns the time at which [`on_time`](Preprocessor::on_time) has to be called, in ns on
    /// [`Host::monotonic_ns`](crate::Host::monotonic_ns), or `None` if no call is needed.
    ///
    /// The runtime calls this method after every call that gets a batch. The result may be in the past. The method
    /// must take constant time, so keep deadlines in a queue.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Adds the messages that have waited long enough for more bytes of their streams to `batch`, which is empty.
    ///
    /// `now` is [`Host::monotonic_ns`](crate::Host::monotonic_ns). The call may be late. It may also be early, if
    /// [`due`](Preprocessor::due) has returned a later time since.
    ///
    /// A pull is acknowledged only after the messages that contain its bytes have ended.
    ///
    /// # Errors
    /// Returns the errors of [`process`](Preprocessor::process).
    fn on_time(&mut self, _now: u64, _batch: &mut Batch, _output: &mut Output) -> Result<()> {
        Ok(())
    }

    /// Returns whether bytes of `stream` are buffered.
    ///
    /// If the source has acknowledgements, the runtime calls this method after each call of
    /// [`process`](Preprocessor::process) and [`on_time`](Preprocessor::on_time), for the streams of the events in that
    /// call's batch. The method must take constant time.
    ///
    /// The default is for a preprocessor that buffers nothing. Implement this method together with
    /// [`streams`](Preprocessor::streams). Otherwise pulls are acknowledged while their bytes are still buffered, and
    /// a restart loses these bytes.
    fn buffers(&self, _stream: u64) -> bool {
        false
    }

    /// Returns the number of the call that received the oldest buffered bytes of `stream`. Calls of
    /// [`process`](Preprocessor::process) and [`on_time`](Preprocessor::on_time) are counted together, from 1.
    ///
    /// `None` means that the bytes follow the last message of the stream, as for most formats: if a call emits an event
    /// of the stream, the bytes that remain were received by that call. A preprocessor that buffers several messages of
    /// a stream at a time must return the number. Only built-in preprocessors can implement this method.
    #[doc(hidden)]
    fn buffered_since(&self, _stream: u64) -> Option<u64> {
        None
    }

    /// Returns the streams that have state and have not ended, in any order.
    ///
    /// The default is for a preprocessor without state.
    fn streams(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Frames and transforms messages after the codec has encoded them.
///
/// Each instance processes the batches of one sink, one after the other.
pub trait Postprocessor: Send + 'static {
    /// Returns the bytes that end every message, if the postprocessor only appends these bytes.
    ///
    /// The bytes are then appended during encoding, and [`process`](Postprocessor::process) is not called. A message
    /// that contains these bytes leaves by `err`, because the receiver would take it for two messages.
    fn suffix(&self) -> Option<&[u8]> {
        None
    }

    /// Replaces the raw events of `batch` one by one, preferably with [`Batch::cut`].
    ///
    /// The order of the events must not change. Remove rejected events from the batch.
    ///
    /// # Errors
    /// Returns an error if the batch could not be processed. All events of the batch then leave by `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;
}
