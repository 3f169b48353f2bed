//! The engine: runs flows.
//!
//! ```text
//! source task:  pull -> preprocess -> decode -> operators -> encode     and others that help it
//!                                                             | bounded queue
//! sink task:                                       frame -> deliver -> account
//! ```
//! A batch runs to completion on one core, as far as that goes: whoever pulls it takes it through
//! (`worker`), and encodes it too where the source feeds one sink. Tasks that help a source
//! (`lane`) keep the order of pulls (`turns`). Otherwise operators are where the cut is.
//!
//! Each side of a connector is a task, and so is each pipeline that several tasks feed and that
//! keeps something between batches; all other pipelines run within the tasks that feed them
//! (`router`). What stands between tasks is a bounded queue of batches (`queue`); a full one stops
//! the pull. Every event is followed to its end (`delivery`, `stats`).
//!
//! A flow ends when its sources end, when it is asked to (`Handle::drain`), or when a component
//! fails for good: sources end first, each queue ends with the last who feeds it, and so everything
//! under way arrives.

mod backoff;
mod build;
mod connection;
mod connector;
mod control;
mod dead_letter;
mod delivery;
#[doc(hidden)]
pub mod hand_over;
mod intake;
mod lane;
mod pace;
mod pipeline;
mod queue;
mod router;
mod routes;
mod seat;
mod simulation;
mod sink;
mod source;
mod spin;
mod stage;
mod stats;
#[cfg(test)]
mod tests;
mod turns;
mod watch;
mod worker;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use self::{
    build::{ConnectorType, OperatorInstance, Parts},
    connection::Connection,
    simulation::{Form, Simulation, Taken},
};
pub use self::{control::Failure, stats::Counts};
use self::{
    control::{Control, Phase},
    stats::Stats,
};
use crate::{executor, flow};

/// How long tasks have to end once they are told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// A flow that is ready to run.
pub(crate) struct Planned {
    name: String,
    control: Arc<Control>,
    stats: Arc<Stats>,
    tasks: build::Tasks,
}

/// A running flow.
pub(crate) struct Flow {
    name: String,
    control: Arc<Control>,
    stats: Arc<Stats>,
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
    /// How long it ran.
    pub elapsed: Duration,
    /// What failed it, if anything did.
    pub failure: Option<Failure>,
    /// Whether it was still at work when its time to drain was over.
    pub cut_off: bool,
}

impl Flow {
    /// Plans a checked flow and loads what it needs from `parts`.
    ///
    /// # Errors
    /// What keeps a component from being made, at its place in the flow.
    pub(crate) fn plan(flow: &flow::Flow, parts: &dyn Parts) -> Result<Planned, flow::Error> {
        let sinks = flow.graph.nodes().filter(|(_, node)| node.role == flow::Role::Sink).count();
        let control = Arc::new(Control::new(sinks));
        let stats = Arc::new(Stats::default());
        let tasks = build::tasks(flow, parts, &control, &stats)?;
        Ok(Planned { name: flow.name().to_owned(), control, stats, tasks })
    }
}

impl Planned {
    /// Starts the flow.
    pub(crate) fn start(self) -> Flow {
        let Self { name, control, stats, tasks } = self;
        let named = |part: &str| format!("{name}/{part}");
        let connectors =
            tasks.connectors.into_iter().map(|task| executor::spawn(named(&task.name), task.run()));
        let pipelines = tasks
            .pipelines
            .into_iter()
            .map(|task| executor::spawn(named(&task.router.name), task.run()));
        let tasks = connectors.chain(pipelines).collect();
        Flow { name, control, stats, tasks, started: Instant::now() }
    }
}

impl Flow {
    /// A handle to end the flow with.
    pub(crate) fn handle(&self) -> Handle {
        Handle(self.control.clone())
    }

    /// Waits until the flow has ended. Once it drains, for whatever reason, it has `deadline`
    /// for that.
    pub(crate) async fn ended(self, deadline: Duration) -> Report {
        let control = self.control.clone();
        let watchdog = async move {
            control.reached(Phase::Draining).await;
            executor::sleep(deadline).await;
            control.advance(Phase::Stopped);
            // Tasks notice by themselves, but not those that wait for a plugin that hangs.
            executor::sleep(GRACE).await;
        };
        let tasks = async {
            for task in self.tasks {
                task.await;
            }
        };
        executor::first(tasks, watchdog).await;
        Report {
            flow: self.name,
            counts: self.stats.counts(),
            elapsed: self.started.elapsed(),
            failure: self.control.failure(),
            cut_off: self.control.has_reached(Phase::Stopped),
        }
    }
}

/// Ends a flow from outside.
#[derive(Clone, Debug)]
pub(crate) struct Handle(Arc<Control>);

impl Handle {
    /// Sources end; what is under way still arrives.
    pub(crate) fn drain(&self) {
        self.0.advance(Phase::Draining);
    }

    /// Everything ends where it is.
    pub(crate) fn stop(&self) {
        self.0.advance(Phase::Stopped);
    }
}
