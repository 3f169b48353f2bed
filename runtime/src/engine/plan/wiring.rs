//! The queues between tasks, and the targets of ports.

use std::{collections::HashMap, num::NonZeroU64, sync::Arc};

use super::{
    placement::{Runners, when_full},
    topology::{Sending, Topology},
};
use crate::{
    clock::Clock,
    engine::{
        control::Control,
        processors::Processors,
        queue::{self, Bounds, Overflow, Receiver, Sender, sender::WeakSender, stalled::Stalled},
        route::outlets::Outlet,
        target::{Ports, Target},
        tracking::stats::FlowCounters,
    },
    flow::{self, ERR, Flow, Node, NodeId, OUT, Role, WhenFull, owner_of},
};

/// The queues of a flow: one before each sink, and one before each pipeline that is a task.
pub(super) struct Queues {
    senders: HashMap<NodeId, Sending<Sender>>,
    receivers: HashMap<NodeId, Receiver>,
}

impl Queues {
    /// Creates the queues that `topology`, which numbers all nodes, does not have. The queues of the topology get further
    /// senders.
    pub(super) fn new(
        flow: &Flow,
        runners: &Runners,
        topology: &Topology,
        counters: &FlowCounters,
        control: &Control,
    ) -> Self {
        let mut queues = Self { senders: HashMap::new(), receivers: HashMap::new() };
        for (id, node) in flow.graph.nodes() {
            if let Some(sending) = topology.sending(node) {
                queues.senders.extend(sending.upgrade().map(|it| (id, it)));
                continue;
            }
            let bounds = match node.role {
                Role::Sink => bounds(&flow.spec.connectors[node.index]),
                Role::Pipeline if runners.run_by(id, id) => Bounds::default(),
                Role::Pipeline | Role::Source => continue,
            };
            let (overflow, drops) = match when_full(flow, node) {
                WhenFull::Block => (Overflow::Wait, false),
                WhenFull::DropNewest => (Overflow::ReturnNewest, true),
                WhenFull::DropOldest => (Overflow::ReturnOldest, true),
                WhenFull::DeadLetter => (Overflow::ReturnOldest, false),
            };
            let (sender, receiver) =
                queue::bounded(bounds, overflow, control.processors(), control.clock());
            let queue = if drops { sender.settle_on_entry() } else { sender };
            receiver.gauge().count_in(control.memory().account(owner_of(&node.name)));
            control.add_queue(topology.number(node), receiver.senders());
            counters.set_queue(&node.name, node.role, receiver.gauge());
            let (name, stats) = (node.name.as_str().into(), counters.of(&node.name, node.role));
            let stalled = Arc::default();
            queues.senders.insert(id, Sending { queue, name, stats, stalled });
            queues.receivers.insert(id, receiver);
        }
        queues
    }

    /// Returns references to all queues.
    pub(super) fn sendings(&self) -> impl Iterator<Item = (NodeId, Sending<WeakSender>)> {
        self.senders.iter().map(|(id, sending)| (*id, sending.downgrade()))
    }

    /// Returns the outlets into the queues of `targets` for the tasks of the node with the number `sender`.
    pub(super) fn outlets(&self, targets: &Targets<'_>, sender: u32) -> Vec<Outlet> {
        let outlet = |(at, id): (usize, &NodeId)| {
            let Sending { queue, name, stats, stalled } = self.senders.get(id)?;
            let overflow = targets.overflow.get(id).cloned().unwrap_or_default();
            Some(Outlet {
                queue: queue.of(sender),
                name: name.clone(),
                stats: stats.clone(),
                when_full: when_full(targets.flow, targets.flow.graph.node(*id)),
                overflow,
                is_stored: is_stored(targets.flow, targets.flow.graph.node(*id)),
                is_for_overflow: at >= targets.linked,
                stalled: stalled.clone(),
            })
        };
        targets.queued.iter().enumerate().filter_map(outlet).collect()
    }

    /// Returns the state of the sink `id` that the tasks share which feed the sink.
    pub(super) fn stalled(&self, id: NodeId) -> Arc<Stalled> {
        self.senders.get(&id).map(|it| it.stalled.clone()).unwrap_or_default()
    }

    /// Removes and returns the receiver of the queue of `id`. Call this only after all outlets of the queue were
    /// created: it drops the original sender, so that the queue ends with the last outlet.
    pub(super) fn receiver(&mut self, id: NodeId) -> Receiver {
        self.senders.remove(&id);
        let none = || {
            queue::bounded(
                Bounds::default(),
                Overflow::Wait,
                &Processors::default(),
                &Clock::default(),
            )
            .1
        };
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
    /// Number of the nodes in `queued` that links lead to. The task sends only what other queues give up to the rest.
    pub(super) linked: usize,
    /// Targets of the batches that the queue of a sink gives up, as positions in `queued`.
    pub(super) overflow: HashMap<NodeId, Vec<usize>>,
}

impl<'t> Targets<'t> {
    /// Creates targets of which `queued` are the first ones.
    pub(super) fn new(flow: &'t Flow, staged: &'t [NodeId], queued: Vec<NodeId>) -> Self {
        Self { flow, staged, queued, linked: 0, overflow: HashMap::new() }
    }

    /// Adds the targets of the batches that queues give up. Call this after the targets of all ports were added.
    pub(super) fn add_overflow(&mut self) {
        self.linked = self.queued.len();
        let mut next = 0;
        while let Some(id) = self.queued.get(next).copied() {
            let node = self.flow.graph.node(id);
            if when_full(self.flow, node) == WhenFull::DeadLetter {
                let targets = self.port(node, ERR).into_iter().filter_map(|target| match target {
                    Target::Queue(at) => Some(at),
                    // A pipeline that takes such batches is a task with a queue.
                    Target::Pipeline(_) | Target::Rest(_) => None,
                });
                let targets = targets.collect();
                self.overflow.insert(id, targets);
            }
            next += 1;
        }
    }

    /// Returns the ports of the node that owns the task. In the task of a pipeline, all events enter this pipeline.
    pub(super) fn own_ports(&mut self, owner: NodeId) -> Ports {
        let node = self.flow.graph.node(owner);
        if node.role != Role::Pipeline {
            return self.ports(node);
        }
        let own = self.staged.iter().position(|id| *id == owner);
        Ports { out: own.map(Target::Pipeline).into_iter().collect(), ..Ports::default() }
    }

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

/// Returns whether the events of a sink stay in its queue on disk until the sink has delivered them.
fn is_stored(flow: &Flow, node: &Node) -> bool {
    node.role == Role::Sink && flow.spec.connectors[node.index].is_stored()
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
