//! Runs flows in this process, from the first pull to the final report.

use std::time::Duration;

use crate::clock::Clock;
use crate::{
    components::{Components, FlowParts},
    engine::{self, Processors, Report},
    executor,
    flow::{self, Flow},
    memory::MemoryBudget,
    renewal,
    watchdog::Watchdog,
};
pub use crate::{instance_metrics::InputSize, run_handle::RunHandle, watchdog::calls_in_progress};

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
    let (watchdog, processors) = (Watchdog::start(clock), Processors::default());
    let mut planned = Vec::with_capacity(flows.len());
    for (flow, components) in flows {
        let (calls, memory) = (watchdog.flow(flow.name()), budget.flow(flow.name()));
        let parts = FlowParts { components, flow, run, calls: &calls, memory: &memory, clock };
        planned.push(engine::Flow::plan(
            flow,
            &parts,
            calls.clone(),
            &processors,
            memory.clone(),
            clock,
        )?);
    }
    budget.divide();
    let mut handles = Vec::with_capacity(flows.len());
    let running: Vec<_> = planned
        .into_iter()
        .map(|flow| {
            let running = flow.start();
            let handle = running.handle();
            run.add(handle.clone());
            handles.push(handle.clone());
            async move { handle.or_end_run(running.ended(deadline), || run.drain()).await }
        })
        .collect();
    let running = executor::all(running);
    let _renewal = renewal::watch(flows.iter().map(|(flow, _)| *flow), run, clock);
    let beside = engine::waiting::report(handles, clock);
    // This thread awaits the flows, because plugins may block all threads of the executor.
    Ok(executor::block_on(executor::first(running, beside)))
}
