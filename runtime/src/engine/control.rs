//! What all tasks of a flow share: in which phase the flow is, and what failed it.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU8, Ordering},
    task::{Context, Poll},
};

use tremor_pdk::Error;

use super::watch::{Waiter, Watch};

/// The life of a flow. It only ever goes forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Events flow.
    #[default]
    Running,
    /// Sources bring nothing more; what is under way still arrives.
    Draining,
    /// Everything ends where it is.
    Stopped,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Sinks that have not been connected yet: sources wait for them.
    sinks_awaited: usize,
    failure: Option<Failure>,
}

/// Why a flow failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The component that failed.
    pub component: String,
    /// What it failed with.
    pub error: Error,
}

/// The control of one flow.
#[derive(Debug)]
pub(crate) struct Control {
    /// A copy of the state's phase, to look at without a lock once a batch.
    phase: AtomicU8,
    state: Watch<State>,
}

impl Control {
    pub(crate) fn new(sinks: usize) -> Self {
        let state = State { sinks_awaited: sinks, ..State::default() };
        Self { phase: AtomicU8::new(0), state: Watch::new(state) }
    }

    /// Whether the flow is in `phase` or a later one.
    pub(crate) fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) >= phase as u8
    }

    /// Goes forward to `phase`, if it is not there yet.
    pub(crate) fn advance(&self, phase: Phase) {
        self.state.update(|state| {
            state.phase = state.phase.max(phase);
            self.phase.store(state.phase as u8, Ordering::Relaxed);
        });
    }

    /// A component has failed for good: the flow drains what it can. The first failure is kept.
    pub(crate) fn fail(&self, component: &str, error: Error) {
        self.state.update(|state| {
            let failure = Failure { component: component.to_owned(), error };
            state.failure.get_or_insert(failure);
        });
        self.advance(Phase::Draining);
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.read(|state| state.failure.clone())
    }

    /// A sink is connected for the first time.
    pub(crate) fn sink_ready(&self) {
        self.state.update(|state| state.sinks_awaited = state.sinks_awaited.saturating_sub(1));
    }

    /// Waits until all sinks are connected, or the flow ends before that.
    pub(crate) async fn sinks_ready(&self) {
        let ready = |state: &State| state.sinks_awaited == 0 || state.phase > Phase::Running;
        self.state.wait(|state| ready(state).then_some(())).await;
    }

    /// Waits until the flow is in `phase` or a later one.
    pub(crate) fn reached(&self, phase: Phase) -> Reached<'_> {
        Reached { phase, waiter: self.state.waiter() }
    }

    /// How many tasks wait for a change.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting()
    }
}

/// One task's wait for a phase of its flow.
#[derive(Debug)]
pub(crate) struct Reached<'c> {
    phase: Phase,
    waiter: Waiter<'c, State>,
}

impl Reached<'_> {
    /// Ready once the flow is in the phase or a later one, however often it is asked.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let phase = self.phase;
        self.waiter.poll(context, |state| (state.phase >= phase).then_some(()))
    }
}

impl Future for Reached<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Reached::poll(&mut self, context)
    }
}
