//! The parts of a sink that a reload can replace.

use std::mem::swap;

use crate::{
    codec::BatchEncoder,
    engine::{
        retry::backoff::Policy,
        sink::{SinkSide, postprocessors::Postprocessors, terms::Terms},
    },
};

/// The parts of a sink that the specification of its connector determines.
pub(crate) struct SinkParts {
    pub(crate) postprocessors: Postprocessors,
    /// `None` for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchEncoder>>,
    pub(crate) terms: Terms,
    /// Rules for repeating deliveries.
    pub(crate) retry: Policy,
}

impl SinkSide {
    /// Exchanges the parts of the sink for others. Call this only while the sink does not run. The sink keeps its queue
    /// and its backlog, whose deliveries are encoded again when the sink runs next.
    pub(crate) fn exchange(&mut self, other: &mut SinkParts) {
        swap(&mut self.postprocessors, &mut other.postprocessors);
        swap(&mut self.codec, &mut other.codec);
        swap(&mut self.terms, &mut other.terms);
        self.retries.exchange(&mut other.retry);
        (self.is_grant_logged, self.is_other) = (false, true);
    }
}
