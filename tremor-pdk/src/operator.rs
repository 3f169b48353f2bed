//! The trait of operators, which process events between connectors.

use crate::{Batch, Output, Result};

/// One step of a pipeline: it takes a batch of events, and sends batches out of its ports. An instance has
/// its own state, and gets one batch after the other.
///
/// A panic in any of these methods becomes an error of the instance: its events leave by `err`.
pub trait Operator: Send + 'static {
    /// Processes a batch of values. Events that are left in `batch` leave by `out`; `output` sends, rejects
    /// and discards the others, above all with [`Output::divert`].
    ///
    /// Every event is accounted for. An operator that keeps events for later, or makes one event of
    /// several, absorbs them with a [`Buffered`](crate::Buffered). Events that did not come in are
    /// [created](Output::create). The runtime compares the numbers after every call, and fails the batch if
    /// they differ.
    ///
    /// Use the time of the events, [`EventRef::ingest_ns`](crate::EventRef::ingest_ns): the results are then
    /// the same whenever the same events are processed.
    ///
    /// # Errors
    /// The batch could not be processed as a whole: events that are left in it leave by `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;

    /// Returns the time of the next call of [`on_time`](Operator::on_time), in ns since the Unix epoch. The
    /// runtime asks after every call.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Notifies the operator of the time: `now`, in ns since the Unix epoch, is not before the time that
    /// [`due`](Operator::due) returned.
    ///
    /// # Errors
    /// Errors are logged with the name of the component.
    fn on_time(&mut self, now: u64, output: &mut Output) -> Result<()> {
        let _ = (now, output);
        Ok(())
    }

    /// Notifies the operator that no event follows: everything that is buffered has to be emitted, rejected
    /// or discarded now. Events that are buffered afterwards fail.
    ///
    /// # Errors
    /// Errors are logged with the name of the component.
    fn flush(&mut self, output: &mut Output) -> Result<()> {
        let _ = output;
        Ok(())
    }

    /// Returns the names of the ports besides `out` and `err`. Events are sent to a port by its position in
    /// this list. The runtime asks once.
    fn ports(&self) -> Vec<String> {
        Vec::new()
    }
}
