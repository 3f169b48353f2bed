//! Running flows in this process, from the first pull to the last report.

use std::time::Duration;

use crate::{
    components::{Components, FlowParts},
    engine::{self, Processors, Report},
    executor,
    flow::{self, Flow},
    memory::MemoryBudget,
    watchdog::Watchdog,
};
pub use crate::{instance_metrics::InputSize, run_handle::RunHandle};

/// Runs flows that were [checked](Components::check) until all of them have ended, and reports how, without a limit for
/// their memory; see [`run_within`].
///
/// # Errors
/// As [`run_within`].
pub fn run(
    flows: &[(&Flow, &Components)],
    run: &RunHandle,
    deadline: Duration,
) -> Result<Vec<Report>, flow::Error> {
    run_within(flows, run, deadline, &MemoryBudget::default())
}

/// Runs flows that were [checked](Components::check) until all of them have ended, and reports how.
/// Once a flow drains, it has `deadline` for that. Where a connector has failed for good whose key
/// `on_failure` says `exit`, all flows drain. All of them share `budget`.
///
/// # Errors
/// What keeps a flow from starting: a library that does not load, say. No flow runs then.
pub fn run_within(
    flows: &[(&Flow, &Components)],
    run: &RunHandle,
    deadline: Duration,
    budget: &MemoryBudget,
) -> Result<Vec<Report>, flow::Error> {
    let (watchdog, processors) = (Watchdog::start(), Processors::default());
    let mut planned = Vec::with_capacity(flows.len());
    for (flow, components) in flows {
        let (calls, memory) = (watchdog.flow(flow.name()), budget.flow());
        let parts =
            FlowParts { components, flow, run, calls: &calls, memory: &memory, clock: None };
        planned.push(engine::Flow::plan(flow, &parts, calls.clone(), &processors, memory.clone())?);
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
    // On this thread, and on none of the executor's: plugins may hold all of those.
    Ok(executor::block_on(executor::first(running, engine::waiting::report(handles))))
}
