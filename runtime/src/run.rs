//! Running flows in this process, from the first pull to the last report.

use std::time::Duration;

pub use crate::stop::{InputSize, Signalled, Stopper};
use crate::{
    components::{Components, FlowParts},
    engine::{self, Processors, Report},
    executor,
    flow::{self, Flow},
    watchdog::Watchdog,
};

/// Runs flows that were [checked](Components::check) until all of them have ended, and reports how.
/// Once a flow drains, it has `deadline` for that. Where a connector has failed for good whose key
/// `on_failure` says `exit`, all flows drain.
///
/// # Errors
/// What keeps a flow from starting: a library that does not load, say. No flow runs then.
pub fn run(
    flows: &[(&Flow, &Components)],
    stopper: &Stopper,
    deadline: Duration,
) -> Result<Vec<Report>, flow::Error> {
    let (watchdog, processors) = (Watchdog::start(), Processors::default());
    let mut planned = Vec::with_capacity(flows.len());
    for (flow, components) in flows {
        let calls = watchdog.flow(flow.name());
        let parts = FlowParts { components, flow, stopper, calls: &calls };
        planned.push(engine::Flow::plan(flow, &parts, calls.clone(), &processors)?);
    }
    let running = planned.into_iter().map(|flow| {
        let running = flow.start();
        let handle = running.handle();
        stopper.add(handle.clone());
        async move { handle.or_end_run(running.ended(deadline), || stopper.drain()).await }
    });
    // On this thread, and on none of the executor's: plugins may hold all of those.
    Ok(executor::block_on(executor::all(running)))
}
