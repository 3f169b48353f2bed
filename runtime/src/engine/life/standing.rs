//! How things stand with a connector, for an operator who asks why the flow does not end.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tremor_pdk::Error;

use crate::engine::life::gate::Gate;

/// A component that kept a flow from ending in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// Its name in the flow.
    pub component: String,
    /// What it was doing.
    pub doing: String,
}

/// How things stand with one connector.
#[derive(Debug)]
pub(crate) struct Standing {
    name: Arc<str>,
    state: Mutex<State>,
    /// What waits for its sink.
    queue: Option<Gauge>,
    /// Events that its sink has taken out of the queue, and that are not delivered.
    in_hand: AtomicUsize,
    /// What pauses it.
    pub(crate) gate: Gate,
}

#[derive(Debug)]
struct State {
    name: &'static str,
    since: Instant,
    /// What went wrong last, since it last ran.
    error: Option<String>,
}

/// The state in which events flow,
const RUNNING: &str = "running";
/// and those in which nothing is under way any more.
const OVER: [&str; 2] = ["stopped", "failed"];

/// How many events wait in a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    pub(crate) fn set(&self, events: usize) {
        self.0.store(events, Ordering::Relaxed);
    }

    pub(crate) fn events(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Standing {
    /// A connector that is yet to be made, with the queue of its sink.
    pub(crate) fn new(name: Arc<str>, queue: Option<Gauge>) -> Self {
        let state = State { name: "planned", since: Instant::now(), error: None };
        Self {
            name,
            state: Mutex::new(state),
            queue,
            in_hand: AtomicUsize::new(0),
            gate: Gate::default(),
        }
    }

    /// Its name in the flow.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// It is in another state.
    pub(crate) fn enter(&self, name: &'static str) {
        let mut state = self.lock();
        if state.name != name {
            let error = state.error.take().filter(|_| name != RUNNING);
            *state = State { name, since: Instant::now(), error };
        }
    }

    /// It has to try again, because of an error.
    pub(crate) fn note(&self, error: &Error) {
        self.lock().error = Some(error.to_string());
    }

    /// Its sink has so many events that are not delivered.
    pub(crate) fn set_in_hand(&self, events: usize) {
        self.in_hand.store(events, Ordering::Relaxed);
    }

    /// Why it does not end, where that is its own affair.
    pub(crate) fn held_up(&self) -> Option<HeldUp> {
        self.told(false)
    }

    /// What it is about, unless it has ended.
    pub(crate) fn doing(&self) -> Option<HeldUp> {
        self.told(true)
    }

    fn told(&self, always: bool) -> Option<HeldUp> {
        let queued = self.queue.as_ref().map_or(0, Gauge::events);
        let events = self.in_hand.load(Ordering::Relaxed) + queued;
        let state = self.lock();
        if OVER.contains(&state.name) || (events == 0 && !always) {
            return None;
        }
        let mut doing = format!("{} for {:.1} s", state.name, state.since.elapsed().as_secs_f64());
        // Writing to a string cannot fail.
        if events > 0 {
            _ = write!(doing, ", {events} events are not delivered");
        }
        if let Some(error) = &state.error {
            _ = write!(doing, "; the last attempt failed: {error}");
        }
        Some(HeldUp { component: self.name.to_string(), doing })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tremor_pdk::Error;

    use super::Standing;

    fn doing(standing: &Standing) -> Option<String> {
        standing.held_up().map(|it| it.doing)
    }

    #[test]
    fn a_sink_that_cannot_connect_holds_up_its_flow_while_events_wait_for_it() {
        let standing = Standing::new("output".into(), None);
        standing.enter("connecting");
        standing.note(&Error::connection_refused("nobody there"));
        assert_eq!(doing(&standing), None, "nothing waits for it");
        standing.set_in_hand(3);
        let told = doing(&standing).unwrap();
        assert!(told.starts_with("connecting for "), "{told}");
        assert!(told.contains("3 events are not delivered; the last attempt failed"), "{told}");
        assert!(told.contains("nobody there"), "{told}");
        standing.enter("running");
        let told = doing(&standing).unwrap();
        assert!(!told.contains("nobody there"), "it has connected since: {told}");
        standing.enter("failed");
        assert_eq!(doing(&standing), None, "its events have failed");
    }
}
