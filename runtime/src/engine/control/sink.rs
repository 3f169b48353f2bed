//! The state of a sink on which its sources depend.

use std::{
    fmt::{self, Debug, Formatter},
    sync::{Arc, Weak},
    time::Instant,
};

use super::queues::Waits;
use crate::engine::{
    handle::{ConnectorHandle, status::Awaited},
    retry::breaker::Outage,
};
use crate::flow::WhenFull;

/// Returns whether a task may still send to a queue.
pub(crate) type HasSenders = Box<dyn Fn() -> bool + Send + Sync>;

/// The treatment of events that a sink cannot deliver at the moment.
pub(crate) struct Treatment {
    /// The treatment of events for which the queue of the sink has no capacity. Unless it blocks, no source waits for the
    /// sink.
    pub(crate) when_full: WhenFull,
    /// `true` if the events of the sink stay in its queue on disk until it has delivered them.
    pub(crate) is_stored: bool,
    /// Returns whether a task may still send to the queue of the sink.
    pub(crate) has_senders: HasSenders,
}

/// The part of a sink's state on which the sources that feed it depend.
#[expect(clippy::struct_excessive_bools, reason = "they change independently of each other")]
pub(super) struct Sink {
    pub(super) node: u32,
    pub(super) connector: Arc<ConnectorHandle>,
    /// The sources whose events may reach the sink: node and name of the connector of each source.
    pub(super) sources: Vec<(u32, String)>,
    /// `true` once the sink was connected for the first time. The sources before the sink do not begin earlier.
    pub(super) is_ready: bool,
    /// The treatment of events for which the queue of the sink has no capacity. Unless it blocks, no source waits for the
    /// sink.
    pub(super) when_full: WhenFull,
    /// `true` if the events of the sink stay in its queue on disk until it has delivered them.
    pub(super) is_stored: bool,
    /// Returns whether a task may still send to the queue of the sink.
    pub(super) has_senders: HasSenders,
    /// Time at which all tasks were found to have ended that send to the queue of the sink.
    pub(super) ended_at: Option<Instant>,
    /// `true` once the sink has to give up what it has, because it has not delivered it in time.
    pub(super) gives_up: bool,
    /// `true` once the sink has ended, and has no event any more.
    pub(super) has_ended: bool,
    pub(super) outage: Weak<Outage>,
}

impl Debug for Sink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { node, connector, is_ready, when_full, gives_up, .. } = self;
        let mut sink = f.debug_struct("Sink");
        sink.field("node", node).field("connector", &connector.name());
        sink.field("is_ready", is_ready).field("when_full", when_full).field("gives_up", gives_up);
        sink.finish_non_exhaustive()
    }
}

impl Sink {
    /// Returns whether the source of the connector `source` is not pulled because of this sink.
    fn holds_up(&self, source: &str) -> bool {
        // If a connector has a source and a sink, an outage of the sink never stops the source.
        self.awaited_by(source)
            || (self.when_full.blocks()
                && self.feeds(source)
                && self.connector.name() != source
                && self.is_down())
    }

    /// Returns whether the peer of the sink accepts no events.
    pub(super) fn is_down(&self) -> bool {
        self.outage.upgrade().is_some_and(|outage| outage.is_down())
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
