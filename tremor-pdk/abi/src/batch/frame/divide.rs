//! Division of batches that are too large for one frame.

use super::{Encoder, FrameError, MAX_EVENTS, Medium};
use crate::batch::Batch;

/// A single event that cannot be written to a frame, and the reason.
#[derive(Debug)]
pub struct Refused {
    /// A batch with the event.
    pub batch: Batch,
    /// The reason. [`FrameError::is_too_large`] distinguishes an event that is larger than the limit.
    pub error: FrameError,
}

/// Divides a batch into batches that each fit into one frame of at most `limit` bytes, if an
/// encoder with this limit writes them. Events that
/// cannot be written at all are returned one by one as errors. The order of the events is kept, and the parts share the
/// buffers of the batch.
///
/// Call this function after [`Encoder::prepare`] has refused the batch, because it has to prepare every part to know
/// its length.
pub fn divide(batch: Batch, medium: Medium, limit: usize) -> Divided {
    Divided { encoder: Encoder::with_limit(medium, limit), left: vec![batch] }
}

/// The parts of a divided batch: see [`divide`].
pub struct Divided {
    encoder: Encoder,
    /// Parts that are not checked yet; the next one is the last.
    left: Vec<Batch>,
}

impl Iterator for Divided {
    type Item = Result<Batch, Refused>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = self.left.pop()?;
            let Some(error) = self.encoder.prepare(&batch).err() else { return Some(Ok(batch)) };
            let count = batch.len();
            if count < 2 {
                return Some(Err(Refused { batch, error }));
            }
            // A batch with too many events is divided into full parts, and another one into halves.
            let first = if count > MAX_EVENTS { MAX_EVENTS } else { count / 2 };
            self.left.extend(batch.divide(&[first, count - first]).into_iter().rev());
        }
    }
}
