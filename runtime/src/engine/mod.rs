//! The engine: runs flows.
//!
//! ```text
//! source task:  pull -> preprocess -> decode -> operators -> encode     and others that help it
//!                                                             | bounded queue
//! sink task:                                       frame -> deliver -> account
//! ```
//! It is an ordered parallel pipeline: batches are pulled in order, decoded in parallel, operated on in
//! order, encoded in parallel, and put into queues in order. A batch runs to completion on one core, as
//! far as that goes: the task that pulls it takes it through (`source::worker`), and encodes it too
//! where the source feeds one sink. Helpers of a source (`source::shared_intake`) keep the order of
//! pulls in in-order sections (`route::in_order`).
//!
//! Each side of a connector is a task, and so is each pipeline that several tasks feed and that
//! keeps something between batches; all other pipelines run within the tasks that feed them
//! (`route::router`). Between tasks is a bounded queue of batches (`queue`); a full one stops
//! the pull. Every event is followed to its end (`account`).
//!
//! Connections come and go (`connector`), and a source that has ended hears of its acknowledgements
//! whatever becomes of them (`source::settling`). What a sink's peer cannot take now is tried again
//! (`sink::retry`). The log says so in a few lines (`logging::notices`).
//!
//! Folders import downwards only: `waiting`, `simulation`, `status` and `plan`; `connector`; `source` and `sink`; `pipeline`;
//! `route`; `queue`; `account`; `parts`; `control`;
//! `handle` and `logging`; `retry`; `sync`; `spin`; `processors`, `target` and `tuning`.
//!
//! A flow ends when its sources end, when it is asked to (`FlowHandle::drain`), or when a component
//! fails for good: sources end first, each queue ends with its last sender, and so everything
//! under way arrives.

mod account;
mod connector;
mod control;
mod handle;
mod logging;
mod parts;
mod pipeline;
mod plan;
mod processors;
mod queue;
mod retry;
mod route;
mod simulation;
mod sink;
mod source;
mod spin;
mod status;
mod sync;
mod target;
#[cfg(test)]
mod tests;
mod tuning;
pub(crate) mod waiting;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_channel::Receiver;

#[doc(hidden)]
pub use self::queue::hand_over;
use self::{
    account::stats::Books,
    control::{Control, Phase},
    handle::ConnectorHandle,
};
pub use self::{
    account::{
        deliveries::{BOUNDS, Latencies},
        stats::{Component, ComponentCounts, Counts},
    },
    control::Failure,
    handle::{
        series::RetryCounts,
        status::{Awaited, HeldUp, State, Status},
    },
    status::{FlowState, FlowStatus},
    sync::gauge::Queue,
};
pub(crate) use self::{
    handle::connection::Connection,
    parts::{ConnectorType, MakePreprocessor, OperatorInstance, Parts},
    processors::Processors,
    simulation::{Simulation, Taken},
};
pub use crate::flow::Role as Kind;
use crate::{executor, flow, log, memory::FlowMemory, watchdog::Calls};

/// How long tasks have to end once they are told to stop.
const GRACE: Duration = Duration::from_secs(2);
/// The same where the process is to end at once.
const LAST_MOMENT: Duration = Duration::from_millis(40);

/// A flow that is ready to run.
pub(crate) struct Planned {
    name: String,
    control: Arc<Control>,
    books: Books,
    tasks: plan::Tasks,
}

/// A running flow.
pub(crate) struct Flow {
    name: String,
    control: Arc<Control>,
    books: Arc<Books>,
    tasks: Vec<executor::Task<()>>,
    started: Instant,
}

/// How a flow ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// The flow's name.
    pub flow: String,
    /// What became of its events.
    pub counts: Counts,
    /// The same for each component.
    pub components: Vec<Component>,
    /// How long it ran.
    pub elapsed: Duration,
    /// What failed it, if anything did.
    pub failure: Option<Failure>,
    /// Whether it was still at work when its time to drain was over, or when it was told to stop.
    pub cut_off: bool,
    /// Whether it was cut off and something is lost by that: events whose source is not told, events
    /// that a sink has acknowledged and still buffers, or the orderly end of a component.
    pub is_incomplete: bool,
    /// The components that were, where the time to drain was over.
    pub held_up: Vec<HeldUp>,
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
    /// Plans a checked flow and loads what it needs from `parts`, whose calls to plugins are
    /// recorded in `calls`. All flows of a run share its `processors`; the flow takes its memory from `memory`.
    ///
    /// # Errors
    /// What keeps a component from being made, at its place in the flow.
    pub(crate) fn plan(
        flow: &flow::Flow,
        parts: &dyn Parts,
        calls: Arc<Calls>,
        processors: &Processors,
        memory: FlowMemory,
    ) -> Result<Planned, flow::Error> {
        let control = Control::new().of_run(calls, processors.clone());
        let control = Arc::new(control.with_memory(memory));
        let mut books = Books::default();
        let tasks = plan::tasks(flow, parts, &control, &mut books)?;
        Ok(Planned { name: flow.name().to_owned(), control, books, tasks })
    }
}

impl Planned {
    /// Starts the flow.
    pub(crate) fn start(self) -> Flow {
        let Self { name, control, books, tasks } = self;
        let calls = control.calls();
        let flow = calls.flow().clone();
        let connectors = tasks.connectors.into_iter().map(|task| {
            let turns = calls.watch(&task.name, Some("connector"));
            executor::spawn(log::of_flow(flow.clone(), turns.turns(task.run())))
        });
        let pipelines = tasks.pipelines.into_iter().map(|task| {
            let turns = calls.watch(&task.router.name, Some("pipeline"));
            executor::spawn(log::of_flow(flow.clone(), turns.turns(task.run())))
        });
        let tasks = connectors.chain(pipelines).collect();
        Flow { name, control, books: Arc::new(books), tasks, started: Instant::now() }
    }
}

impl Flow {
    /// A handle to end the flow with.
    pub(crate) fn handle(&self) -> FlowHandle {
        let (control, books) = (self.control.clone(), self.books.clone());
        FlowHandle { flow: self.name.clone(), control, books }
    }

    /// Waits until the flow has ended. Once it drains, for whatever reason, it has `deadline`
    /// for that.
    pub(crate) async fn ended(self, deadline: Duration) -> Report {
        let flow = self.control.calls().flow().clone();
        log::of_flow(flow, Box::pin(self.until_end(deadline))).await
    }

    async fn until_end(self, deadline: Duration) -> Report {
        let control = self.control.clone();
        let watchdog = async {
            control.reached(Phase::Draining).await;
            let deadline = control.deadline().unwrap_or(deadline);
            executor::first(executor::sleep(deadline), control.reached(Phase::Stopped)).await;
            control.cut_off(Phase::Stopped);
            // Tasks notice by themselves, but not those whose thread a plugin holds.
            executor::first(executor::sleep(GRACE), control.reached(Phase::Halted)).await;
            if control.has_reached(Phase::Halted) {
                executor::sleep(LAST_MOMENT).await;
            }
            true
        };
        let tasks = async {
            for task in self.tasks {
                task.await;
            }
            false
        };
        let is_left_behind = control.losses().during(executor::first(tasks, watchdog)).await;
        let components = self.books.components();
        let counts = Counts::of(&components);
        let held_up = control.held_up();
        for HeldUp { component, doing } in &held_up {
            tracing::warn!(%component, doing, "held up the end of its flow");
        }
        let cut_off = control.has_reached(Phase::Stopped);
        let loses = is_left_behind
            || counts.undelivered > 0
            || control.is_undrained()
            || control.has_reached(Phase::Halted);
        let report = Report {
            flow: self.name,
            counts: if is_left_behind { counts.with_the_rest_failed(&components) } else { counts },
            components,
            elapsed: self.started.elapsed(),
            failure: control.failure(),
            cut_off,
            is_incomplete: cut_off && loses,
            held_up,
        };
        report.log();
        report
    }
}

/// Ends a flow from outside, pauses its connectors, and says how it stands.
#[derive(Clone, Debug)]
pub(crate) struct FlowHandle {
    flow: String,
    control: Arc<Control>,
    books: Arc<Books>,
}

impl FlowHandle {
    /// The flow's name.
    pub(crate) fn flow(&self) -> &str {
        &self.flow
    }

    /// The flow as it stands.
    pub(crate) fn status(&self) -> FlowStatus {
        FlowStatus::of(&self.flow, &self.control, &self.books)
    }

    /// The ports of a component, where there is one of this name.
    pub(crate) fn ports(&self, component: &str) -> Option<Vec<&str>> {
        self.books.ports(component)
    }

    /// Counts how long deliveries take, from now on.
    pub(crate) fn watch_deliveries(&self) {
        self.books.watch_deliveries();
    }

    /// Listens at a port of a component: JSON of some of the events, while they pass.
    pub(crate) fn listen(&self, component: &str, port: &str) -> Vec<Receiver<String>> {
        self.books.listen(component, port)
    }

    /// Sources end; what is under way still arrives.
    pub(crate) fn drain(&self) {
        self.control.advance(Phase::Draining);
    }

    /// Returns whether the flow drains, or has ended.
    pub(crate) fn is_draining(&self) -> bool {
        self.control.has_reached(Phase::Draining)
    }

    /// Does `end` once a connector has failed with which the run ends, at the latest when this is over; the
    /// result of `flow`.
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

    /// How things stand with its connectors, in the order of the flow file.
    pub(crate) fn connectors(&self) -> Vec<Status> {
        self.control.connectors()
    }

    /// Pauses a connector: no event flows through it until it is resumed, or the flow drains. Whether there
    /// is one of this name.
    pub(crate) fn pause(&self, connector: &str) -> bool {
        self.asked(connector, "pauses", |it| it.gate.pause())
    }

    /// Sources end; what is under way has so long to arrive, unless the flow drains already.
    pub(crate) fn drain_within(&self, deadline: Duration) {
        self.log("the flow drains because of a request");
        self.control.drain_within(deadline);
    }

    /// Another instance of a connector takes the place of the one at hand. Whether there is one of this name.
    pub(crate) fn restart(&self, connector: &str) -> bool {
        self.control.connector(connector).map(|it| it.restart()).is_some()
    }

    /// Events flow through a connector again. Whether there is one of this name.
    pub(crate) fn resume(&self, connector: &str) -> bool {
        self.asked(connector, "resumes", |it| it.gate.resume())
    }

    /// Logs a request and passes it to a connector. Returns whether a connector has this name.
    fn asked(&self, connector: &str, does: &str, ask: impl FnOnce(&ConnectorHandle)) -> bool {
        let Some(handle) = self.control.connector(connector) else { return false };
        log::within(self.control.calls().flow(), || {
            tracing::info!(component = connector, "the connector {does} because of a request");
        });
        ask(&handle);
        true
    }

    fn log(&self, message: &str) {
        log::within(self.control.calls().flow(), || tracing::info!("{message}"));
    }

    /// Drains this flow alone, as a client of the API asked.
    pub(crate) fn drain_on_request(&self) {
        self.log("the flow drains because of a request");
        self.drain();
    }

    /// Everything ends where it is.
    pub(crate) fn stop(&self) {
        self.control.cut_off(Phase::Stopped);
    }

    /// Everything ends where it is; what does not end is not waited for.
    pub(crate) fn halt(&self) {
        self.control.cut_off(Phase::Halted);
    }
}
