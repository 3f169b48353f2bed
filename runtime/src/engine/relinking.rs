//! The change of the links of a running flow: connectors that join or leave, and other links and operators of those that
//! stay.
//!
//! ```text
//! reload:  plan, start        exchange       remove
//! joins:   connect, on trial  | first event
//! leaves:  last event         |              deliver, close, give up
//! ```

use std::{
    fmt::{self, Debug, Formatter},
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use async_channel::{Receiver, Sender};
use tremor_pdk::lock;

use crate::{
    engine::{
        FlowHandle, Kind, Phase, Stage,
        connector::ConnectorTask,
        control::Control,
        parts::Parts,
        plan::{
            Scope,
            rewiring::{self, Exchange, Feeding},
            topology::Topology,
        },
        removal::{self, Leaving, Removal},
        succession::{Member, rehearse},
        tracking::stats::FlowCounters,
    },
    executor,
    flow::{self, Flow, Role},
    log,
    watchdog::Calls,
};

/// The parts of a running flow that a reload can change.
pub(crate) struct Running {
    /// The connectors, without those that no link uses.
    members: Mutex<Vec<Member>>,
    topology: Mutex<Arc<Topology>>,
    joins: Sender<executor::Task<()>>,
}

impl Debug for Running {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Running {
    /// Creates the state of a flow with these connectors. The receiver yields the tasks that join later.
    pub(super) fn of(
        connectors: &[ConnectorTask],
        topology: Topology,
    ) -> (Arc<Self>, Receiver<executor::Task<()>>) {
        let members = Mutex::new(connectors.iter().map(Member::of).collect());
        let (joins, joining) = async_channel::unbounded();
        (Arc::new(Self { members, topology: Mutex::new(Arc::new(topology)), joins }), joining)
    }

    pub(super) fn member(&self, connector: &str) -> Option<Member> {
        lock(&self.members).iter().find(|it| it.handle.name() == connector).cloned()
    }

    fn topology(&self) -> Arc<Topology> {
        lock(&self.topology).clone()
    }
}

/// Starts the task of a connector.
pub(super) fn start(task: ConnectorTask, calls: &Calls) -> executor::Task<()> {
    let turns = calls.watch(&task.name, Some("connector"));
    executor::spawn(log::of_flow(calls.flow().clone(), turns.turns(task.run())))
}

/// Waits until all tasks of a flow have ended, including those that join meanwhile.
pub(super) async fn until_ended(
    mut tasks: Vec<executor::Task<()>>,
    joining: &Receiver<executor::Task<()>>,
) {
    let mut joined = Box::pin(joining.recv());
    poll_fn(|context| {
        while let Poll::Ready(Ok(task)) = joined.as_mut().poll(context) {
            tasks.push(task);
            joined = Box::pin(joining.recv());
        }
        tasks.retain_mut(|task| Pin::new(task).poll(context).is_pending());
        if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A version of a flow for which its running version is prepared. If this value is dropped before the links are exchanged,
/// the connectors that have joined leave again.
pub(crate) struct Relinking {
    control: Arc<Control>,
    counters: Arc<FlowCounters>,
    running: Arc<Running>,
    tasks: Vec<ConnectorTask>,
    exchanges: Vec<Exchange>,
    /// Names of the connectors that join.
    joining: Vec<String>,
    joined: Vec<Member>,
    leaving: Vec<String>,
    feeding: Vec<Feeding>,
    pipelines: Vec<(String, Vec<String>)>,
    pipelines_before: Vec<(String, Vec<String>)>,
    added_pipelines: Vec<String>,
    removed_pipelines: Vec<String>,
    topology: Arc<Topology>,
    is_done: bool,
}

/// Connectors that had joined, and leave again.
pub(crate) struct Withdrawn(Vec<Member>);

impl Withdrawn {
    pub(crate) fn have_ended(&self) -> bool {
        self.0.iter().all(|it| it.handle.status().state.is_over())
    }
}

impl FlowHandle {
    /// Returns the reason why the flow, of which `before` is the running version, cannot become `next` without being
    /// replaced, if there is one.
    pub(crate) fn link_obstacle(
        &self,
        next: &Flow,
        before: &Flow,
        parts: &dyn Parts,
    ) -> Option<String> {
        if self.control.has_reached(Phase::Draining) {
            return Some("the flow is ending".to_owned());
        }
        let [with_queues, with_queues_before] = [next, before].map(Flow::with_queues);
        let (next, before) =
            (with_queues.as_ref().unwrap_or(next), with_queues_before.as_ref().unwrap_or(before));
        rewiring::obstacle(next, before, parts, &self.running.topology())
    }

    /// Plans the change from the running version `before` of the flow to `next`, and creates the components that join. To
    /// find errors of constructors, connectors and operators are created with `trial`, and dropped. `is_awaited` returns
    /// `false` once the caller has given up, because a constructor took too long.
    ///
    /// # Errors
    /// Returns the reason why a component cannot be created, with its location in the flow file.
    pub(crate) fn relinking(
        &self,
        (next, before): (&Flow, &Flow),
        (trial, parts): (&dyn Parts, &dyn Parts),
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Relinking, flow::Error> {
        for connector in &next.spec.connectors {
            let name = &connector.name.value;
            if next.is_linked(name) && !before.is_linked(name) {
                rehearse(next, name, trial)?;
            }
        }
        rewiring::rehearse(next, before, trial)?;
        if !is_awaited() {
            // A later reload may have changed the flow.
            return Err(next
                .error(flow::Span::START, "the reload does not wait any longer".to_owned())
                .into());
        }
        let (control, counters) = (self.control.clone(), self.counters.clone());
        let [with_queues, with_queues_before] = [next, before].map(Flow::with_queues);
        let (next, before) =
            (with_queues.as_ref().unwrap_or(next), with_queues_before.as_ref().unwrap_or(before));
        let connectors_only_in = |flow: &Flow, other: &Flow| -> Vec<String> {
            let names = flow.spec.connectors.iter().map(|it| &it.name.value);
            names.filter(|it| flow.is_linked(it) && !other.is_linked(it)).cloned().collect()
        };
        let pipelines_only_in = |flow: &Flow, other: &Flow| -> Vec<String> {
            let pipelines = flow.graph.nodes().map(|(_, node)| node);
            let pipelines = pipelines.filter(|node| {
                node.role == Role::Pipeline && other.graph.find(node.role, &node.name).is_none()
            });
            pipelines.map(|it| it.name.clone()).collect()
        };
        let mut relinking = Relinking {
            control: control.clone(),
            counters: counters.clone(),
            running: self.running.clone(),
            tasks: Vec::new(),
            exchanges: Vec::new(),
            joining: connectors_only_in(next, before),
            joined: Vec::new(),
            leaving: connectors_only_in(before, next),
            feeding: Vec::new(),
            pipelines: rewiring::pipelines(next),
            pipelines_before: rewiring::pipelines(before),
            added_pipelines: pipelines_only_in(next, before),
            removed_pipelines: pipelines_only_in(before, next),
            topology: Arc::default(),
            is_done: false,
        };
        let scope = Scope { parts, control: &control, counters: &counters };
        let (mut tasks, exchanges) =
            rewiring::rewire(next, before, scope, &self.running.topology())?;
        relinking.feeding = rewiring::feeding(next, &tasks.topology);
        relinking.topology = Arc::new(std::mem::take(&mut tasks.topology));
        (relinking.tasks, relinking.exchanges) = (tasks.connectors, exchanges);
        relinking.joined = relinking.tasks.iter().map(Member::of).collect();
        Ok(relinking)
    }
}

impl Relinking {
    /// Starts the connectors that join, on trial. They get no events before the links are exchanged.
    pub(crate) fn start(&mut self) {
        for task in self.tasks.drain(..) {
            task.handover.begin_trial();
            // If the flow has ended, nobody waits for the task, and it ends because its queue has ended.
            _ = self.running.joins.try_send(start(task, self.control.calls()));
        }
    }

    /// Returns whether all connectors that join have tried to connect.
    pub(crate) fn are_tried(&self) -> bool {
        !self.joined.iter().any(|it| matches!(it.handover.stage(), Stage::Exchanged))
    }

    /// Returns the name and the error of each connector that has failed on trial.
    pub(crate) fn failures(&self) -> Vec<(String, String)> {
        let failed = self.joined.iter().filter_map(|it| match it.handover.stage() {
            Stage::Failed(error) => Some((it.handle.name().to_owned(), error.to_string())),
            _ => None,
        });
        failed.collect()
    }

    /// Lets the connectors that have joined leave again.
    pub(crate) fn withdraw(self) -> Withdrawn {
        Withdrawn(self.joined.clone())
    }

    /// Removes and returns the links that running tasks get, for [`exchange`](crate::engine::exchange).
    pub(crate) fn take_exchanges(&mut self) -> Vec<Exchange> {
        std::mem::take(&mut self.exchanges)
    }

    /// Completes the change after the links were exchanged. Returns the removal of the connectors that leave.
    pub(crate) fn complete(mut self) -> Removal {
        self.is_done = true;
        let Self { control, counters, running, topology, .. } = &self;
        let mut leaving = Vec::new();
        for name in &self.leaving {
            let Some(member) = running.member(name) else { continue };
            member.handover.leave();
            member.handle.gate.resume();
            control.set_sources(name, &[]);
            let outage = topology.outage(name);
            outage.iter().for_each(|outage| outage.set_sources(Vec::new()));
            leaving.push(Leaving::new(member, outage));
        }
        for Feeding { sink, sources, stopped } in &self.feeding {
            control.set_sources(sink, sources);
            if let Some(outage) = topology.outage(sink) {
                let breakers = stopped.iter().filter_map(|source| topology.breaker(source));
                outage.set_sources(breakers.collect());
            }
        }
        self.forget_pipelines(&self.removed_pipelines, &self.pipelines);
        self.joined.iter().for_each(|it| it.handover.settle());
        let mut members = lock(&running.members);
        members.retain(|it| !self.leaving.iter().any(|name| name == it.handle.name()));
        members.extend(self.joined.iter().cloned());
        *lock(&running.topology) = topology.clone();
        Removal::new(control.clone(), counters.clone(), leaving)
    }
}

impl Relinking {
    /// Removes the pipelines `gone` from the status of the flow, which has the pipelines `left`.
    fn forget_pipelines(&self, gone: &[String], left: &[(String, Vec<String>)]) {
        for pipeline in gone {
            self.counters.remove(pipeline, Kind::Pipeline);
            self.control.calls().forget(pipeline);
        }
        self.control.retain_pipelines(left);
    }
}

impl Drop for Relinking {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        for member in &self.joined {
            member.handover.remove();
            member.handle.restart();
        }
        // Planning may have failed before it created the connectors.
        for name in &self.joining {
            self.control.remove(name);
            removal::forget(&self.counters, name);
        }
        self.forget_pipelines(&self.added_pipelines, &self.pipelines_before);
    }
}
