//! Flows as the engine runs them: with a connector for each queue on disk.

use super::{
    Component, Connector, Flow, Pull, Queue, Restart, Retry, WhenFull, graph::Queued,
    source::Located,
};

/// Type of the connector that is a queue on disk. No component has this name, because it is not valid.
pub(crate) const QUEUE: &str = "/queue";

impl Flow {
    /// Returns whether a sink of the flow has a queue on disk.
    pub(crate) fn is_stored(&self) -> bool {
        self.spec.connectors.iter().any(|it| it.queue.disk.is_some())
    }

    /// Returns the flow with a connector before each sink whose queue is on disk, or `None` if there is no such sink.
    pub(crate) fn with_queues(&self) -> Option<Self> {
        let connectors = &self.spec.connectors;
        let count = connectors.len();
        let is_queued = |(_, it): &(usize, &Connector)| it.queue.disk.is_some();
        let queued: Vec<_> = connectors
            .iter()
            .enumerate()
            .filter(is_queued)
            .enumerate()
            .map(|(at, (sink, connector))| Queued {
                sink,
                queue: count + at,
                name: queue_of(&connector.name.value),
            })
            .collect();
        if queued.is_empty() {
            return None;
        }
        let mut flow = self.clone();
        flow.graph = self.graph.with_queues(&queued);
        let queues = queued.into_iter().map(|it| connectors[it.sink].as_queue(it.name));
        flow.spec.connectors.extend(queues);
        Some(flow)
    }
}

impl Connector {
    /// Returns the connector that is the queue on disk of this sink.
    fn as_queue(&self, name: String) -> Self {
        let at = self.queue.disk.as_ref().map_or(self.name.at, |disk| disk.path.at);
        let Queue { when_full, disk, .. } = self.queue.clone();
        let queue = Queue { when_full, disk, ..Queue::default() };
        Self {
            name: Located::new(name, self.name.at),
            component: Component::new(QUEUE, at),
            codec: None,
            preprocessors: Vec::new(),
            postprocessors: Vec::new(),
            reconnect: Retry::default(),
            retry: Retry::default(),
            restart: Restart::default(),
            call_limit: None,
            hang_limit: None,
            isolation: None,
            on_failure: self.on_failure,
            in_flight: None,
            ordered: None,
            batch: None,
            pull: Pull::default(),
            queue,
            err: self.err,
            dead_letters: self.dead_letters,
        }
    }

    /// Returns whether this connector is the queue on disk of a sink.
    pub(crate) fn is_queue(&self) -> bool {
        self.component.name.value == QUEUE
    }

    /// Returns what the queue in memory before the sink does if it is full. If the events are on disk, it blocks, because
    /// only the queue on disk can be full for long.
    pub(crate) fn when_memory_is_full(&self) -> WhenFull {
        if self.queue.disk.is_some() { WhenFull::Block } else { self.queue.when_full }
    }

    /// Returns what the queue on disk does if it is full, if this connector is one.
    pub(crate) fn when_disk_is_full(&self) -> Option<WhenFull> {
        self.is_queue().then_some(self.queue.when_full)
    }

    /// Returns whether the events of the sink stay on disk until it has delivered them.
    pub(crate) fn is_stored(&self) -> bool {
        self.queue.disk.is_some() && !self.is_queue()
    }
}

/// Returns the name of the queue on disk of a sink, which no connector can have.
fn queue_of(sink: &str) -> String {
    format!("{sink}{QUEUE}")
}

/// Returns the name of the sink to which a queue on disk belongs, or the unchanged name of another component.
pub(crate) fn owner_of(name: &str) -> &str {
    name.strip_suffix(QUEUE).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Limits, parse};

    const CONNECTORS: &str = "
connectors:
  a: { type: x }
  b: { type: x, queue: { disk: { path: queue, max_bytes: 1MiB } } }
  dead: { type: x }
pipelines: { p: {} }
";

    fn graph(links: &str) -> String {
        let text = format!("{CONNECTORS}links: [{links}]");
        let draft = parse("f", text, &Limits::default(), &Environment::default()).unwrap();
        draft.finish().unwrap().with_queues().unwrap().graph.to_string()
    }

    #[test]
    fn queue_is_between_what_was_linked_and_the_sink() {
        let expected = "source a, out -> sink b/queue/in, out -> pipeline p/in\n\
                        pipeline p, out -> sink b/queue/in\n\
                        sink b/queue\n\
                        source b/queue, out -> sink b/in\n\
                        sink b\n";
        assert_eq!(graph("a -> b, a -> p, p -> b"), expected);
    }

    #[test]
    fn failed_events_of_queue_and_sink_have_the_same_targets() {
        let expected = "source a, out -> sink b/queue/in\n\
                        sink b/queue, err -> pipeline p/in\n\
                        source b/queue, out -> sink b/in, err -> pipeline p/in\n\
                        sink b, err -> pipeline p/in\n\
                        pipeline p, out -> sink dead/in\n\
                        sink dead\n";
        assert_eq!(graph("a -> b, b/err -> p -> dead"), expected);
    }

    #[test]
    fn source_of_a_connector_has_no_queue() {
        let expected = "source b, out -> sink a/in\nsink a\n";
        assert_eq!(graph("b -> a"), expected);
    }
}
