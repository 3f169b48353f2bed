//! Running flows in this process, from the first pull to the last report.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    components::{Components, FlowParts},
    engine::{self, Report},
    executor,
    flow::{self, Flow},
    watchdog::Watchdog,
};

/// Ends all flows of a run. Clones end the same run.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    flows: Vec<engine::Handle>,
    drains: bool,
    stops: bool,
}

impl Stopper {
    /// Sources bring nothing more; what is under way still arrives.
    pub fn drain(&self) {
        let mut state = self.lock();
        state.drains = true;
        state.flows.iter().for_each(engine::Handle::drain);
    }

    /// Everything ends where it is.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.stops = true;
        state.flows.iter().for_each(engine::Handle::stop);
    }

    /// What a signal means: the first drains, the second stops. Says whether it was the first.
    pub fn signal(&self) -> bool {
        let is_first = !self.lock().drains;
        if is_first {
            self.drain();
        } else {
            self.stop();
        }
        is_first
    }

    fn add(&self, flow: engine::Handle) {
        let mut state = self.lock();
        if state.drains {
            flow.drain();
        }
        if state.stops {
            flow.stop();
        }
        state.flows.push(flow);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs flows that were [checked](Components::check) until all of them have ended, and reports how.
/// Once a flow drains, it has `deadline` for that.
///
/// # Errors
/// What keeps a flow from starting: a library that does not load, say. No flow runs then.
pub fn run(
    flows: &[(&Flow, &Components)],
    stopper: &Stopper,
    deadline: Duration,
) -> Result<Vec<Report>, flow::Error> {
    let watchdog = Watchdog::start();
    let mut planned = Vec::with_capacity(flows.len());
    for (flow, components) in flows {
        let calls = watchdog.flow(flow.name());
        let parts = FlowParts { components, flow, stopper, calls: &calls };
        planned.push(engine::Flow::plan(flow, &parts)?);
    }
    let running = planned.into_iter().map(|flow| {
        let running = flow.start();
        stopper.add(running.handle());
        running.ended(deadline)
    });
    // On this thread, and on none of the executor's: plugins may hold all of those.
    Ok(executor::block_on(executor::all(running)))
}
