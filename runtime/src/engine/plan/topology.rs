//! The tasks, queues and links of a running flow, to which a reload can add others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use tremor_pdk::lock;

use crate::engine::{
    logging::notices::FlowNotices,
    queue::{Sender, sender::WeakSender, stalled::Stalled},
    retry::breaker::{Breaker, Outage},
    route::router::Egress,
    tracking::stats::Stats,
};
use crate::flow::{Graph, Node, Role};

/// Identity of a node in all versions of a flow.
pub(super) type Key = (Role, String);

pub(super) fn key(node: &Node) -> Key {
    (node.role, node.name.clone())
}

/// The tasks, queues and links of a running flow. Nothing of this keeps a part of the flow alive.
#[derive(Default)]
pub(crate) struct Topology {
    /// Numbers of the nodes, by which queues and events identify them. No number is used twice.
    numbers: HashMap<Key, u32>,
    next_number: u32,
    pub(super) tasks: HashMap<Key, TaskLinks>,
    queues: HashMap<Key, Sending<WeakSender>>,
    /// Circuit breakers by the name of the source's connector.
    pub(super) breakers: HashMap<String, Weak<Breaker>>,
    /// Outages by the name of the sink's connector.
    pub(super) outages: HashMap<String, Weak<Outage>>,
    /// The limit of the log lines of all connectors. It reports what it left out when the last connector has ended.
    notices: Mutex<Weak<FlowNotices>>,
}

/// The object through which a task sends its events.
#[derive(Clone)]
pub(super) struct TaskLinks {
    pub(super) egress: Weak<Egress>,
    /// Name of the sink for which the task encodes.
    pub(super) encodes_for: Option<String>,
    /// `true` if several tasks run leading stateless operators, each of which has the links of its pipelines.
    pub(super) leads: bool,
}

/// The sending side of a queue.
#[derive(Clone)]
pub(super) struct Sending<S> {
    pub(super) queue: S,
    pub(super) name: Arc<str>,
    pub(super) stats: Arc<Stats>,
    pub(super) stalled: Arc<Stalled>,
}

impl Sending<Sender> {
    pub(super) fn downgrade(&self) -> Sending<WeakSender> {
        let Self { queue, name, stats, stalled } = self;
        let (name, stats, stalled) = (name.clone(), stats.clone(), stalled.clone());
        Sending { queue: queue.downgrade(), name, stats, stalled }
    }
}

impl Sending<WeakSender> {
    /// Returns a sender, unless the queue has ended.
    pub(super) fn upgrade(&self) -> Option<Sending<Sender>> {
        let Self { queue, name, stats, stalled } = self;
        let (name, stats, stalled) = (name.clone(), stats.clone(), stalled.clone());
        Some(Sending { queue: queue.upgrade()?, name, stats, stalled })
    }
}

impl Topology {
    /// Returns the parts of `earlier` that stay if `graph` is the next version of the flow, and numbers for new nodes.
    pub(super) fn continued(earlier: &Self, graph: &Graph) -> Self {
        let mut next = Self {
            next_number: earlier.next_number,
            breakers: earlier.breakers.clone(),
            outages: earlier.outages.clone(),
            notices: Mutex::new(lock(&earlier.notices).clone()),
            ..Self::default()
        };
        for (_, node) in graph.nodes() {
            let key = key(node);
            let number = earlier.numbers.get(&key).copied().unwrap_or_else(|| {
                next.next_number += 1;
                next.next_number - 1
            });
            if let Some(links) = earlier.tasks.get(&key) {
                next.tasks.insert(key.clone(), links.clone());
            }
            if let Some(sending) = earlier.queues.get(&key) {
                next.queues.insert(key.clone(), sending.clone());
            }
            next.numbers.insert(key, number);
        }
        next.breakers.retain(|_, it| it.strong_count() > 0);
        next.outages.retain(|_, it| it.strong_count() > 0);
        next
    }

    /// Returns the number of a node of the flow.
    pub(super) fn number(&self, node: &Node) -> u32 {
        self.numbers.get(&key(node)).copied().unwrap_or(u32::MAX)
    }

    /// Returns the circuit breaker of a source.
    pub(crate) fn breaker(&self, source: &str) -> Option<Arc<Breaker>> {
        self.breakers.get(source)?.upgrade()
    }

    /// Returns the outage of a sink.
    pub(crate) fn outage(&self, sink: &str) -> Option<Arc<Outage>> {
        self.outages.get(sink)?.upgrade()
    }

    /// Returns the limit of the log lines of all connectors.
    pub(super) fn notices(&self) -> Arc<FlowNotices> {
        let mut notices = lock(&self.notices);
        notices.upgrade().unwrap_or_else(|| {
            let created = Arc::default();
            *notices = Arc::downgrade(&created);
            created
        })
    }

    /// Returns the queue before a node, if the node has one.
    pub(super) fn sending(&self, node: &Node) -> Option<&Sending<WeakSender>> {
        self.queues.get(&key(node))
    }

    pub(super) fn add_queue(&mut self, node: &Node, sending: Sending<WeakSender>) {
        self.queues.insert(key(node), sending);
    }
}
