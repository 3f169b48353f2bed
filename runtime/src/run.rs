//! Runs flows in this process, from the first pull to the final report.

mod comparison;
mod confirm;
mod in_place;
mod links;
mod outcome;
mod planning;
mod reload;
mod supervisor;
mod waiting;

use std::{sync::Arc, time::Duration};

use self::{reload::Reloader, supervisor::Supervisor};
use crate::clock::Clock;
use crate::{
    components::Components,
    engine::Report,
    flow::{self, Flow},
    memory::MemoryBudget,
};
pub use crate::{
    instance_metrics::InputSize, reloads::Faulty, run_handle::RunHandle,
    watchdog::calls_in_progress,
};

/// A flow that was [checked](Components::check), and the components against which it was checked.
#[derive(Clone)]
pub struct Checked {
    /// The flow.
    pub flow: Arc<Flow>,
    /// The components that the flow is created from.
    pub components: Arc<Components>,
}

/// The files of a run, which may be read again while it runs.
pub struct Files {
    /// Reads and checks all flows again. It is called on the thread of reloads.
    ///
    /// Returns all errors if a flow cannot be used.
    pub read: Box<dyn FnMut() -> Result<Vec<Checked>, Faulty> + Send>,
    /// If it is set, a file that is added, removed or written has the same effect as a request.
    pub watch: Option<Watch>,
}

/// The state of watched files.
pub struct Watch {
    /// Value of `state` from before the flows of the run were read.
    pub since: u64,
    /// Returns a value that changes when a file is added, removed or written.
    pub state: Box<dyn FnMut() -> u64 + Send>,
}

/// Runs flows that were [checked](Components::check) until all of them have ended, and returns their reports. The
/// flows have no memory limit; see [`run_within`].
///
/// # Errors
/// Errors of [`run_within`].
pub fn run(
    flows: &[(&Flow, &Components)],
    run: &RunHandle,
    deadline: Duration,
) -> Result<Vec<Report>, flow::Error> {
    run_within(flows, run, deadline, &MemoryBudget::default())
}

/// Runs flows that were [checked](Components::check) until all of them have ended, and returns their reports.
/// If a flow drains, `deadline` is its time limit for that. If a connector with `on_failure: exit` fails permanently,
/// all flows drain. The flows share the memory limit `budget`.
///
/// # Errors
/// An error that prevents a flow from starting, such as a library that cannot be loaded. No flow runs then.
pub fn run_within(
    flows: &[(&Flow, &Components)],
    run: &RunHandle,
    deadline: Duration,
    budget: &MemoryBudget,
) -> Result<Vec<Report>, flow::Error> {
    run_at(flows, run, deadline, budget, &Clock::default())
}

/// Does the same as [`run_within`] with another clock, for tests.
///
/// # Errors
/// Errors of [`run_within`].
#[doc(hidden)]
pub fn run_at(
    flows: &[(&Flow, &Components)],
    run: &RunHandle,
    deadline: Duration,
    budget: &MemoryBudget,
    clock: &Clock,
) -> Result<Vec<Report>, flow::Error> {
    let (supervisor, joining) = Supervisor::new(run, deadline, budget, clock);
    supervisor.start_all(flows.iter().copied())?;
    supervisor.watch_files(flows.iter().map(|(flow, _)| *flow));
    Ok(supervisor.until_end(&joining, |_| {}))
}

/// Runs flows as [`run_within`] does, and changes them while they run: each request of the handle's
/// [`reloads`](RunHandle::reloads) reads `files` again. `replaced` gets the reports of flows that a reload has ended.
/// The run ends once all flows have ended and no reload is in progress. `clock` is that of the run; tests use a
/// simulated one.
///
/// # Errors
/// Errors of [`run_within`].
pub fn run_with_reloads(
    flows: &[Checked],
    files: Files,
    run: &RunHandle,
    deadline: Duration,
    budget: &MemoryBudget,
    clock: &Clock,
    replaced: impl FnMut(Report),
) -> Result<Vec<Report>, flow::Error> {
    let (supervisor, joining) = Supervisor::new(run, deadline, budget, clock);
    let supervisor = Arc::new(supervisor);
    let members = supervisor.start_all(flows.iter().map(|it| (&*it.flow, &*it.components)));
    let reports = members.map(|members| {
        supervisor.watch_files(flows.iter().map(|it| &*it.flow));
        Reloader::start(supervisor.clone(), flows, members, files);
        supervisor.until_end(&joining, replaced)
    });
    run.reloads().end();
    reports
}
