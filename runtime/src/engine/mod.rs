//! The engine, which runs flows.
//!
//! ```text
//! source task:  pull -> preprocess -> decode -> operators -> encode     also run by helper tasks
//!                                                             | bounded queue
//! sink task:                             postprocess -> deliver -> acknowledge
//! ```
//! The engine is an ordered parallel pipeline: batches are pulled in order, decoded in parallel, passed through
//! operators in order, encoded in parallel, and put into queues in order. One core does as many of these steps of a
//! batch as possible: the task that pulls a batch also decodes the batch and runs the operators (`source::worker`), and
//! if the source feeds a single sink, the same task also encodes the batch. Helper tasks of a source
//! (`source::shared_intake`) use in-order sections (`route::in_order`) to keep the order of the pulls.
//!
//! The source of a connector is a task, and so is its sink. A pipeline that several tasks feed and that keeps state
//! between batches is a task as well. All other pipelines run in the tasks that feed them (`route::router`). Bounded
//! queues of batches connect the tasks (`queue`). A full queue stops the pulls of the sources before it. The outcome of
//! every event is tracked (`tracking`).
//!
//! If a connection is lost, the connector connects again (`connector`). A source that has ended still receives
//! acknowledgements, even after its connection is lost (`source::outstanding`). Deliveries that the peer of a sink
//! cannot accept now are retried (`sink::retry`). The number of log lines about such changes is limited
//! (`logging::notices`).
//!
//! A folder or module in this list imports only from itself and from those after it: `waiting`, `simulation`, `status`,
//! `relinking`, `removal`, `succession` and `plan`; `connector`; `source`, `sink` and `disk_queue`; `pipeline`; `route`; `queue`; `tracking`; `parts`; `control`; `handle`
//! and `logging`; `retry`; `sync`; `spin`; `processors`, `target` and `tuning`.
//!
//! A flow ends when its sources have ended, when a drain is requested (`FlowHandle::drain`), or when a component fails
//! permanently. Sources end first, and each queue ends with its last sender, so that all events in flight are
//! delivered.

mod connector;
mod control;
mod disk_queue;
mod handle;
mod logging;
mod parts;
mod pipeline;
mod plan;
mod processors;
mod queue;
mod relinking;
mod removal;
mod retry;
mod route;
mod simulation;
mod sink;
mod source;
mod spin;
mod status;
mod succession;
mod sync;
mod target;
#[cfg(test)]
mod tests;
mod tracking;
mod tuning;
pub(crate) mod waiting;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_channel::Receiver;

#[doc(hidden)]
pub use self::queue::hand_over;
pub use self::{
    control::Failure,
    handle::{
        series::RetryCounts,
        status::{Awaited, State, Status, Unfinished},
    },
    status::{FlowState, FlowStatus},
    sync::gauge::Queue,
    tracking::{
        deliveries::{BOUNDS, Latencies},
        stats::{Component, ComponentCounts, Counts},
        stored::Stored,
    },
};
pub(crate) use self::{
    control::overrun::HANG_LIMIT,
    handle::{
        connection::{Connection, Replaced},
        status::MEMORY,
    },
    logging::losses::{FLOW_ENDED, QUEUE_FULL},
    parts::{ConnectorType, MakePreprocessor, OperatorInstance, Parts},
    processors::Processors,
    relinking::{Relinking, Withdrawn},
    removal::{Remainder, Removal},
    retry::part_restarts::{PANICS_IN_A_ROW, Part, PartRestarts},
    route::exchange::exchange,
    simulation::{Simulation, Taken},
    succession::{Stage, Succession},
};
use self::{
    control::{Control, Phase},
    handle::ConnectorHandle,
    relinking::Running,
    tracking::stats::FlowCounters,
};
pub use crate::flow::Role as Kind;
use crate::{clock::Clock, executor, flow, log, memory::FlowMemory, watchdog::Calls};

/// Time that tasks have to end after a flow was stopped. Tasks that have not ended by then are abandoned.
const GRACE: Duration = Duration::from_secs(2);
/// Time that tasks have to end after the flow was halted because the process ends immediately.
const LAST_MOMENT: Duration = Duration::from_millis(40);

/// A flow that is ready to run.
pub(crate) struct Planned {
    name: String,
    control: Arc<Control>,
    counters: Arc<FlowCounters>,
    tasks: plan::Tasks,
}

/// A running flow.
pub(crate) struct Flow {
    name: String,
    control: Arc<Control>,
    counters: Arc<FlowCounters>,
    running: Arc<Running>,
    tasks: Vec<executor::Task<()>>,
    /// Tasks that join while the flow runs.
    joining: Receiver<executor::Task<()>>,
    started: Instant,
}

/// The result of a flow that has ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the flow.
    pub flow: String,
    /// Numbers of the flow's events, by their outcome.
    pub counts: Counts,
    /// Numbers of events for each component.
    pub components: Vec<Component>,
    /// Time from the start of the flow to its end.
    pub elapsed: Duration,
    /// The first permanent failure of a component, if any.
    pub failure: Option<Failure>,
    /// `true` if the flow was still running when the time limit of its drain was over, or when it was stopped.
    pub cut_off: bool,
    /// `true` if the flow was cut off with a loss: events failed whose source is not notified, a sink still buffered
    /// events that it had acknowledged, or a component could not end normally.
    pub is_incomplete: bool,
    /// The components that had not ended when the time limit of the drain was over.
    pub unfinished: Vec<Unfinished>,
}

impl Report {
    fn log(&self) {
        let Self { elapsed, failure, cut_off, .. } = self;
        match failure {
            None => tracing::info!(?elapsed, cut_off, "the flow has ended"),
            Some(Failure { component, error }) => {
                tracing::error!(?elapsed, cut_off, component, %error, "the flow has failed");
            }
        }
    }
}

impl Flow {
    /// Plans a checked flow and creates its components from `parts`. Calls to plugins are recorded in `calls`. All
    /// flows of a run share `processors` and `clock`; the flow takes its memory from `memory`.
    ///
    /// # Errors
    /// Returns the reason why a component cannot be created, with its location in the flow file.
    pub(crate) fn plan(
        flow: &flow::Flow,
        parts: &dyn Parts,
        calls: Arc<Calls>,
        processors: &Processors,
        memory: FlowMemory,
        clock: &Clock,
    ) -> Result<Planned, flow::Error> {
        let control = Control::new(clock.clone()).of_run(calls, processors.clone(), memory);
        Planned::new(flow, parts, Arc::new(control))
    }
}

impl Planned {
    fn new(
        flow: &flow::Flow,
        parts: &dyn Parts,
        control: Arc<Control>,
    ) -> Result<Self, flow::Error> {
        let counters = Arc::<FlowCounters>::default();
        let with_queues = flow.with_queues();
        let planned = with_queues.as_ref().unwrap_or(flow);
        let scope = plan::Scope { parts, control: &control, counters: &counters };
        let tasks = plan::tasks(planned, scope)?;
        Ok(Self { name: flow.name().to_owned(), control, counters, tasks })
    }

    /// Starts the tasks of the flow.
    pub(crate) fn start(self) -> Flow {
        let Self { name, control, counters, tasks } = self;
        let calls = control.calls();
        let flow = calls.flow().clone();
        let (running, joining) = Running::of(&tasks.connectors, tasks.topology);
        let connectors = tasks.connectors.into_iter().map(|task| relinking::start(task, calls));
        let pipelines = tasks.pipelines.into_iter().map(|task| {
            let turns = calls.watch(&task.router.name, Some("pipeline"));
            executor::spawn(log::of_flow(flow.clone(), turns.turns(task.run())))
        });
        let tasks = connectors.chain(pipelines).collect();
        let started = control.clock().now();
        Flow { name, control, counters, running, tasks, joining, started }
    }
}

impl Flow {
    /// Returns a handle that controls the flow.
    pub(crate) fn handle(&self) -> FlowHandle {
        let (control, counters) = (self.control.clone(), self.counters.clone());
        FlowHandle { flow: self.name.clone(), control, counters, running: self.running.clone() }
    }

    /// Waits until the flow has ended. A drain, whatever its cause, may take the time `deadline`; then the flow is
    /// stopped. A time limit of [`FlowHandle::drain_within`] takes precedence.
    pub(crate) async fn ended(self, deadline: Duration) -> Report {
        let flow = self.control.calls().flow().clone();
        log::of_flow(flow, Box::pin(self.until_end(deadline))).await
    }

    async fn until_end(self, deadline: Duration) -> Report {
        let control = self.control.clone();
        let watchdog = async {
            let clock = control.clock();
            let drains = async {
                control.reached(Phase::Draining).await;
                let deadline = control.deadline().unwrap_or(deadline);
                executor::first(clock.sleep(deadline), control.reached(Phase::Stopped)).await;
                // Sinks that stop no source delay nothing: they give up what they have before the others are stopped.
                control.give_up(GRACE).await;
            };
            executor::first(drains, control.limit_ends(deadline)).await;
            control.cut_off(Phase::Stopped);
            // A task notices the phase by itself, unless a plugin blocks its thread.
            executor::first(clock.sleep(GRACE), control.reached(Phase::Halted)).await;
            if control.has_reached(Phase::Halted) {
                clock.sleep(LAST_MOMENT).await;
            }
            true
        };
        let tasks = async {
            relinking::until_ended(self.tasks, &self.joining).await;
            false
        };
        let is_left_behind = control.losses().during(executor::first(tasks, watchdog)).await;
        let components = self.counters.all_components();
        let counts = Counts::of(&components);
        let unfinished = control.unfinished();
        for Unfinished { component, doing } in &unfinished {
            tracing::warn!(%component, doing, "the component delayed the end of its flow");
        }
        let cut_off = control.has_reached(Phase::Stopped);
        let loses = is_left_behind
            || counts.undelivered > 0
            || control.is_undrained()
            || control.has_reached(Phase::Halted);
        let report = Report {
            flow: self.name,
            counts: if is_left_behind { counts.with_remainder_failed(&components) } else { counts },
            components,
            elapsed: control.clock().elapsed(self.started),
            failure: control.failure(),
            cut_off,
            is_incomplete: cut_off && loses,
            unfinished,
        };
        report.log();
        report
    }
}

/// Controls a running flow: ends it, pauses and restarts its connectors, and reports its status.
#[derive(Clone, Debug)]
pub(crate) struct FlowHandle {
    flow: String,
    control: Arc<Control>,
    counters: Arc<FlowCounters>,
    running: Arc<Running>,
}

impl FlowHandle {
    /// Returns the name of the flow.
    pub(crate) fn flow(&self) -> &str {
        &self.flow
    }

    /// Returns whether both handles control the same flow, and not flows with the same name.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.control, &other.control)
    }

    /// Returns whether a connector has failed whose failure ends the run.
    pub(crate) fn ends_run(&self) -> bool {
        self.control.ends_run()
    }

    /// Returns the current status of the flow.
    pub(crate) fn status(&self) -> FlowStatus {
        FlowStatus::of(&self.flow, &self.control, &self.counters)
    }

    /// Returns the ports of a component, or `None` if no component has this name.
    pub(crate) fn ports(&self, component: &str) -> Option<Vec<String>> {
        self.counters.ports(component)
    }

    /// Turns on the measurement of the duration of deliveries.
    pub(crate) fn watch_deliveries(&self) {
        self.counters.watch_deliveries(self.control.clock());
    }

    /// Adds a listener at a port of a component. Each receiver yields a sample of the events that pass the port, as
    /// JSON. If both the source and the sink of a connector have the port, there are two receivers.
    pub(crate) fn listen(&self, component: &str, port: &str) -> Vec<Receiver<String>> {
        self.counters.listen(component, port, self.control.clock())
    }

    /// Drains the flow: its sources end, and events in flight are still delivered.
    pub(crate) fn drain(&self) {
        self.control.advance(Phase::Draining);
    }

    /// Returns whether the flow drains, or has ended.
    pub(crate) fn is_draining(&self) -> bool {
        self.control.has_reached(Phase::Draining)
    }

    /// Runs `flow` and returns its result. If a connector fails whose failure ends the run, calls `end` immediately,
    /// and again once `flow` has completed.
    pub(crate) async fn or_end_run<T>(&self, flow: impl Future<Output = T>, end: impl Fn()) -> T {
        let failed = async {
            self.control.until_run_ends().await;
            end();
            std::future::pending().await
        };
        let result = executor::first(flow, failed).await;
        if self.control.ends_run() {
            end();
        }
        result
    }

    /// Returns the status of the flow's connectors, in the order of the flow file.
    pub(crate) fn connectors(&self) -> Vec<Status> {
        self.control.connectors()
    }

    /// Pauses a connector: no event flows through it until it is resumed, or the flow drains. Returns whether a
    /// connector has this name.
    pub(crate) fn pause(&self, connector: &str) -> bool {
        self.asked(connector, "pauses", |it| it.gate.pause())
    }

    /// Drains the flow and sets the time limit of the drain to `deadline`, unless the flow drains already.
    pub(crate) fn drain_within(&self, deadline: Duration) {
        self.log("the flow drains because of a request");
        self.control.drain_within(deadline);
    }

    /// Replaces the instance of a connector by a new one. Returns whether a connector has this name.
    ///
    /// Parts of the connector that were given up are called again.
    pub(crate) fn restart(&self, connector: &str) -> bool {
        let Some(handle) = self.connector(connector) else { return false };
        self.control.calls().revive(connector);
        handle.restart();
        true
    }

    /// Lets the operators of a pipeline be called again that were given up. Returns whether a pipeline has this name.
    pub(crate) fn restart_pipeline(&self, pipeline: &str) -> bool {
        let components = self.status().components;
        let exists = components.iter().any(|it| it.kind == Kind::Pipeline && it.name == pipeline);
        if exists {
            self.control.calls().revive(pipeline);
        }
        exists
    }

    /// Resumes a connector that was paused. Returns whether a connector has this name.
    pub(crate) fn resume(&self, connector: &str) -> bool {
        self.asked(connector, "resumes", |it| it.gate.resume())
    }

    /// Returns the handle of a connector of the flow file. Queues on disk are no such connectors.
    fn connector(&self, name: &str) -> Option<Arc<ConnectorHandle>> {
        self.control.connector(name).filter(|_| flow::owner_of(name) == name)
    }

    /// Logs a request and passes it to a connector. Returns whether a connector has this name.
    fn asked(&self, connector: &str, does: &str, ask: impl FnOnce(&ConnectorHandle)) -> bool {
        let Some(handle) = self.connector(connector) else { return false };
        log::within(self.control.calls().flow(), || {
            tracing::info!(component = connector, "the connector {does} because of a request");
        });
        ask(&handle);
        true
    }

    fn log(&self, message: &str) {
        log::within(self.control.calls().flow(), || tracing::info!("{message}"));
    }

    /// Drains this flow because a client of the API requested it, and logs the request.
    pub(crate) fn drain_on_request(&self) {
        self.log("the flow drains because of a request");
        self.drain();
    }

    /// Stops the flow: its tasks end without waiting for events in flight.
    pub(crate) fn stop(&self) {
        self.control.cut_off(Phase::Stopped);
    }

    /// Halts the flow: its tasks end, and tasks that do not end at once are abandoned.
    pub(crate) fn halt(&self) {
        self.control.cut_off(Phase::Halted);
    }
}
