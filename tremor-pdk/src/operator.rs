//! The trait of operators, which process the events of a pipeline.

use crate::{Batch, Output, Result};

/// A step of a pipeline: takes batches of events and sends events to its ports.
///
/// Each instance has its own state, and processes one batch after the other.
///
/// A panic in any of these methods is an error of the instance: the events of the call leave by `err`. If the operator is
/// [stateless](crate::Component::STATELESS) and had not edited the batch, only the event leaves by `err` on which it
/// panicked.
pub trait Operator: Send + 'static {
    /// Processes a batch of values.
    ///
    /// Events that remain in `batch` leave by `out`. Use `output` to send, reject or discard events, usually with
    /// [`Output::divert`].
    ///
    /// Every event must be accounted for. An operator that buffers events, or combines several events into one, absorbs
    /// them with a [`Buffered`](crate::Buffered). New events are [created](Output::create). After every call, the
    /// runtime compares the events that the call received with the events that remained, left or were absorbed. It fails
    /// the batch if their numbers differ, or if an event was returned twice or is not an event of the batch.
    ///
    /// Take the time from the events ([`EventRef::ingest_ns`](crate::EventRef::ingest_ns)), so that processing the
    /// same events again gives the same results.
    ///
    /// # Errors
    /// Returns an error if the batch could not be processed. All events that remain in `batch` then leave by `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;

    /// Returns the time at which [`on_time`](Operator::on_time) has to be called, in ns since the Unix epoch, or `None`
    /// if no call is needed. The runtime calls this method after every other call.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Notifies the operator that the time of [`due`](Operator::due) was reached. `now` is in ns since the Unix
    /// epoch, and not before that time.
    ///
    /// # Errors
    /// Errors are logged with the name of the component.
    fn on_time(&mut self, now: u64, output: &mut Output) -> Result<()> {
        let _ = (now, output);
        Ok(())
    }

    /// Notifies the operator that no event follows.
    ///
    /// The operator has to emit, reject or discard all buffered events during this call. Events that are still buffered
    /// after this call fail.
    ///
    /// # Errors
    /// Errors are logged with the name of the component.
    fn flush(&mut self, output: &mut Output) -> Result<()> {
        let _ = output;
        Ok(())
    }

    /// Returns the names of the ports besides `out` and `err`. The runtime calls this method once.
    ///
    /// Events are sent to a port by its position in this list.
    fn ports(&self) -> Vec<String> {
        Vec::new()
    }
}
