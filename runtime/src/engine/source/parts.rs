//! The parts of a source that a reload can replace.

use std::mem::swap;

use crate::{
    codec::BatchDecoder,
    engine::source::{SourceSide, batch_sizer::BatchSizer, preprocessors::Preprocessors},
};

/// The parts of a source that the specification of its connector determines.
pub(crate) struct SourceParts {
    pub(crate) preprocessors: Preprocessors,
    /// `None` for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchDecoder>>,
    pub(crate) sizer: BatchSizer,
}

impl SourceSide {
    /// Exchanges the parts of the source for others. Call this only while the source does not run, because no bytes are
    /// buffered then.
    pub(crate) fn exchange(&mut self, other: &mut SourceParts) {
        swap(&mut self.intake.preprocessors, &mut other.preprocessors);
        swap(&mut self.worker.codec, &mut other.codec);
        swap(&mut self.worker.sizer, &mut other.sizer);
    }
}
