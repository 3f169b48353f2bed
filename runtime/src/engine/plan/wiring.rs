//! The queues between tasks, and the targets of ports.

use std::{collections::HashMap, num::NonZeroU64, sync::Arc};

use super::placement::Runners;
use crate::{
    clock::Clock,
    engine::{
        control::Control,
        processors::Processors,
        queue::{self, Bounds, Receiver, Sender},
        route::router::Outlet,
        target::{Ports, Target},
        tracking::stats::{FlowCounters, Stats},
    },
    flow::{self, ERR, Flow, Node, NodeId, OUT, Role},
};

/// The queues of a flow: one before each sink, and one before each pipeline that is a task.
pub(super) struct Queues {
    senders: HashMap<NodeId, (Sender, Arc<Stats>)>,
    receivers: HashMap<NodeId, Receiver>,
}

impl Queues {
    pub(super) fn new(
        flow: &Flow,
        runners: &Runners,
        counters: &mut FlowCounters,
        control: &Control,
    ) -> Self {
        let mut queues = Self { senders: HashMap::new(), receivers: HashMap::new() };
        for (id, node) in flow.graph.nodes() {
            let bounds = match node.role {
                Role::Sink => bounds(&flow.spec.connectors[node.index]),
                Role::Pipeline if runners.run_by(id, id) => Bounds::default(),
                Role::Pipeline | Role::Source => continue,
            };
            let (sender, receiver) = queue::bounded(bounds, control.processors(), control.clock());
            receiver.gauge().count_in(control.memory().account(&node.name));
            control.add_queue(id.number(), receiver.senders());
            counters.set_queue(&node.name, node.role, receiver.gauge());
            queues.senders.insert(id, (sender, counters.of(&node.name, node.role)));
            queues.receivers.insert(id, receiver);
        }
        queues
    }

    /// Returns an outlet into the queue of `id` for the tasks of `sender`, or `None` if `id` has no queue.
    pub(super) fn outlet(&self, id: NodeId, sender: NodeId) -> Option<Outlet> {
        let (queue, stats) = self.senders.get(&id)?;
        Some(Outlet { queue: queue.of(sender.number()), stats: stats.clone() })
    }

    /// Removes and returns the receiver of the queue of `id`. Call this only after all outlets of the queue were
    /// created: it drops the original sender, so that the queue ends with the last outlet.
    pub(super) fn receiver(&mut self, id: NodeId) -> Receiver {
        self.senders.remove(&id);
        let none =
            || queue::bounded(Bounds::default(), &Processors::default(), &Clock::default()).1;
        self.receivers.remove(&id).unwrap_or_else(none)
    }
}

/// Assigns positions to the targets of one task's ports.
pub(super) struct Targets<'t> {
    pub(super) flow: &'t Flow,
    /// Pipelines that the task runs. The index of a pipeline here is its position as a target.
    pub(super) staged: &'t [NodeId],
    /// Nodes whose queues the task feeds, in the order in which they were first a target.
    pub(super) queued: Vec<NodeId>,
}

impl Targets<'_> {
    pub(super) fn ports(&mut self, node: &Node) -> Ports {
        let discards_failed = discards_failed(self.flow, node);
        let letter_bytes = letter_bytes(self.flow, node);
        let (out, err) = (self.port(node, OUT), self.port(node, ERR));
        Ports { out, err, discards_failed, letter_bytes }
    }

    pub(super) fn port(&mut self, node: &Node, port: &str) -> Vec<Target> {
        let edges = node.output(port);
        edges.iter().map(|edge| self.target(self.flow.graph.edge(*edge).to)).collect()
    }

    pub(super) fn target(&mut self, id: NodeId) -> Target {
        if let Some(pipeline) = self.staged.iter().position(|staged| *staged == id) {
            return Target::Pipeline(pipeline);
        }
        let known = self.queued.iter().position(|queued| *queued == id);
        Target::Queue(known.unwrap_or_else(|| {
            self.queued.push(id);
            self.queued.len() - 1
        }))
    }
}

/// Returns whether a component drops events that it cannot handle when its port `err` is not linked.
fn discards_failed(flow: &Flow, node: &Node) -> bool {
    match node.role {
        Role::Pipeline => flow.spec.pipelines[node.index].err,
        Role::Source | Role::Sink => flow.spec.connectors[node.index].err,
    }
    .is_some_and(|err| err == flow::Unhandled::Discard)
}

/// Returns the maximum bytes of the original event in a dead letter of a component, or `None` if the flow does not set
/// it.
fn letter_bytes(flow: &Flow, node: &Node) -> Option<usize> {
    let set = match node.role {
        Role::Pipeline => flow.spec.pipelines[node.index].dead_letters,
        Role::Source | Role::Sink => flow.spec.connectors[node.index].dead_letters,
    };
    set.max_bytes.map(|bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX))
}

fn bounds(spec: &flow::Connector) -> Bounds {
    let default = Bounds::default();
    let or = |set: Option<NonZeroU64>, default| {
        set.map_or(default, |set| usize::try_from(set.get()).unwrap_or(usize::MAX))
    };
    Bounds {
        events: or(spec.queue.max_events, default.events),
        bytes: or(spec.queue.max_bytes, default.bytes),
    }
}
