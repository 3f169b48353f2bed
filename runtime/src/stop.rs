//! Ends the flows of a run: what was asked for, and what signals mean. Pauses and restarts connectors of them.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::engine;

/// Signals that come sooner after the first are the same request: `timeout`, say, sends one to the
/// process and one to its group.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// Ends the flows of a run, and pauses and restarts connectors of them. Clones end the same run.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    flows: Vec<engine::Handle>,
    /// The most that was asked for.
    asked: Option<Ask>,
    /// When the first signal came.
    first_signal: Option<Instant>,
}

/// What is asked of flows, and then of those that are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ask {
    Drain,
    Stop,
    Halt,
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// The first: everything drains.
    Drain,
    /// Another one so soon that it is the same request.
    Again,
    /// Everything ends where it is, and nobody waits for what does not.
    Halt,
}

impl Stopper {
    /// Sources bring nothing more; what is under way still arrives.
    pub fn drain(&self) {
        self.ask(Ask::Drain);
    }

    /// Everything ends where it is.
    pub fn stop(&self) {
        self.ask(Ask::Stop);
    }

    /// Pauses a connector of a running flow: no event flows through it until it is
    /// [resumed](Stopper::resume), or its flow drains. What it has under way ends before that. Whether there
    /// is such a connector.
    pub fn pause(&self, flow: &str, connector: &str) -> bool {
        self.lock().flows.iter().any(|it| it.flow() == flow && it.pause(connector))
    }

    /// Events flow again through a connector that was paused. Whether there is such a connector.
    pub fn resume(&self, flow: &str, connector: &str) -> bool {
        self.lock().flows.iter().any(|it| it.flow() == flow && it.resume(connector))
    }

    /// Restarts a connector of a running flow: another instance takes the place of the one at hand, at once,
    /// and this counts as no failure. What its sink has not answered for is delivered again. Whether there
    /// is such a connector.
    pub fn restart(&self, flow: &str, connector: &str) -> bool {
        self.lock().flows.iter().any(|it| it.flow() == flow && it.restart(connector))
    }

    /// Drains one flow while others run: its sources bring nothing more, and what is under way has until
    /// the `deadline` to arrive. That of a flow that drains already stays what it was. Whether there is
    /// such a flow.
    pub fn drain_flow(&self, flow: &str, deadline: Duration) -> bool {
        let flow = self.lock().flows.iter().find(|it| it.flow() == flow).cloned();
        flow.map(|it| it.drain_within(deadline)).is_some()
    }

    /// Ends one flow where it is, while others run. Whether there is such a flow.
    pub fn stop_flow(&self, flow: &str) -> bool {
        let flow = self.lock().flows.iter().find(|it| it.flow() == flow).cloned();
        flow.map(|it| it.stop()).is_some()
    }

    /// How things stand with the connectors of a running flow; none where there is no such flow.
    pub fn connectors(&self, flow: &str) -> Option<Vec<engine::Status>> {
        let flow = self.lock().flows.iter().find(|it| it.flow() == flow).cloned()?;
        Some(flow.connectors())
    }

    /// A signal came at this moment: the first drains, a later one ends everything.
    pub fn signal(&self, now: Instant) -> Signalled {
        let signalled = {
            let mut state = self.lock();
            match state.first_signal {
                None => {
                    state.first_signal = Some(now);
                    Signalled::Drain
                }
                Some(first) if now.saturating_duration_since(first) <= ONE_REQUEST => {
                    Signalled::Again
                }
                Some(_) => Signalled::Halt,
            }
        };
        match signalled {
            Signalled::Drain => self.ask(Ask::Drain),
            Signalled::Again => {}
            Signalled::Halt => self.ask(Ask::Halt),
        }
        signalled
    }

    fn ask(&self, ask: Ask) {
        let mut state = self.lock();
        state.asked = state.asked.max(Some(ask));
        state.flows.iter().for_each(|flow| ask.of(flow));
    }

    pub(crate) fn add(&self, flow: engine::Handle) {
        let mut state = self.lock();
        if let Some(ask) = state.asked {
            ask.of(&flow);
        }
        state.flows.push(flow);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ask {
    fn of(self, flow: &engine::Handle) {
        match self {
            Self::Drain => flow.drain(),
            Self::Stop => flow.stop(),
            Self::Halt => flow.halt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Signalled, Stopper};

    #[test]
    fn signals_that_come_at_once_are_one_request_and_a_later_one_ends_everything() {
        let (stopper, first) = (Stopper::default(), Instant::now());
        let signals = [0, 0, 1, 250, 251, 1_000].map(|ms| first + Duration::from_millis(ms));
        let [drain, again, halt] = [Signalled::Drain, Signalled::Again, Signalled::Halt];
        let expected = [drain, again, again, again, halt, halt];
        assert_eq!(signals.map(|at| stopper.signal(at)), expected);
    }

    #[test]
    fn the_first_signal_drains_although_a_component_has_asked_for_that() {
        let stopper = Stopper::default();
        stopper.drain();
        assert_eq!(stopper.signal(Instant::now()), Signalled::Drain);
    }
}
