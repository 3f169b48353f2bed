//! The state of a sink on which its sources depend.

use std::sync::{Arc, Weak};

use super::queues::Waits;
use crate::engine::{
    handle::{ConnectorHandle, status::Awaited},
    retry::breaker::Outage,
};

/// The part of a sink's state on which the sources that feed it depend.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) node: u32,
    pub(super) connector: Arc<ConnectorHandle>,
    /// The sources whose events may reach the sink: node and name of the connector of each source.
    pub(super) sources: Vec<(u32, String)>,
    /// `true` once the sink was connected for the first time. The sources before the sink do not begin earlier.
    pub(super) is_ready: bool,
    /// `false` if the queue of the sink gives batches up, so that no source waits for the sink.
    pub(super) blocks: bool,
    pub(super) outage: Weak<Outage>,
}

impl Sink {
    /// Returns whether the source of the connector `source` is not pulled because of this sink.
    fn holds_up(&self, source: &str) -> bool {
        let is_down = || self.outage.upgrade().is_some_and(|outage| outage.is_down());
        // If a connector has a source and a sink, an outage of the sink never stops the source.
        self.awaited_by(source)
            || (self.blocks && self.feeds(source) && self.connector.name() != source && is_down())
    }

    /// Returns whether the source of the connector `source` may not begin because of this sink.
    pub(super) fn awaited_by(&self, source: &str) -> bool {
        !self.is_ready && self.feeds(source)
    }

    pub(super) fn feeds(&self, source: &str) -> bool {
        self.sources.iter().any(|(_, name)| name == source)
    }

    pub(super) fn has_events(&self) -> bool {
        self.connector.in_flight() + self.connector.queued() > 0
    }

    /// Returns the reason if the source `node` of the connector `source` is not pulled because of this sink.
    pub(super) fn awaited(&self, node: u32, source: &str, waits: &Waits) -> Option<Awaited> {
        if self.holds_up(source) {
            return Some(self.connector.awaited(None));
        }
        let since = *waits.of(node).get(&self.node)?;
        Some(self.connector.awaited(Some(since)))
    }
}
