//! What authors implement to process events between connectors: operators.

use crate::{Batch, Output, Result};

/// One step of a pipeline: a batch in, and batches out of its ports. It has a state of its own,
/// and sees batches one after the other.
///
/// A panic in any of these methods becomes an error of this instance: its events leave by `err`,
/// as all that follow do.
pub trait Operator: Send + 'static {
    /// Processes a batch of values. What is left in `batch` afterwards leaves by `out`; everything
    /// else is up to `output`, above all [`Output::divert`].
    ///
    /// Every event is accounted for: it is left, sent, rejected, [dropped on purpose](Output::discard),
    /// [part of another](Output::merge) or [held](Operator::held); and what is put out has come in, or
    /// was [made here](Output::create). The runtime compares the numbers after every call. Where they
    /// do not add up, the batch fails.
    ///
    /// The time is that of the events, [`Event::ingest_ns`](crate::Event::ingest_ns): an operator
    /// that goes by it gives the same results for the same events.
    ///
    /// # Errors
    /// The batch could not be processed as a whole: what is in it when the call returns leaves by
    /// `err`.
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()>;

    /// When [`on_time`](Operator::on_time) is to be called, in ns since the Unix epoch. Asked after
    /// every call.
    fn due(&self) -> Option<u64> {
        None
    }

    /// It is `now`, in ns since the Unix epoch, at or after what [`due`](Operator::due) said. What
    /// is put into `batch`, which is empty, leaves by `out`.
    ///
    /// # Errors
    /// They are logged with the component's name.
    fn on_time(&mut self, now: u64, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let _ = (now, batch, output);
        Ok(())
    }

    /// Puts out the events that the operator buffers, as [`on_time`](Operator::on_time) does, because no event
    /// follows. The last call.
    ///
    /// # Errors
    /// They are logged with the component's name.
    fn flush(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        let _ = (batch, output);
        Ok(())
    }

    /// How many of the events that came in it still holds. What it holds of a batch it also says with
    /// [`Output::hold`], so that the batch is acknowledged with what becomes of it.
    fn held(&self) -> usize {
        0
    }

    /// The ports that events leave by besides `out` and `err`. Events are sent out of one by its
    /// position in here. Asked once.
    fn ports(&self) -> Vec<String> {
        Vec::new()
    }
}
