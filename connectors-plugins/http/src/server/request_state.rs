//! State of the last request of a connection.

use std::sync::{Arc, Mutex, MutexGuard};

use tremor_pdk::lock;

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The event is in the flow.
    Accepted,
    /// The events are delivered, became dead letters, or were discarded on purpose.
    Delivered,
    /// At least one of the events was not delivered.
    Failed,
    /// The request or one of its events could not be decoded, for this reason. Other events of the
    /// request are delivered.
    Undecodable(Arc<str>),
}

/// State of the last request of a connection that entered the queue. A connection has one request
/// at a time.
#[derive(Default)]
pub(crate) struct RequestState(Mutex<State>);

#[derive(Default)]
struct State {
    /// Number of the request. Results of earlier requests of the connection may still arrive, and
    /// are ignored.
    number: u64,
    outcome: Option<Outcome>,
}

impl RequestState {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Starts the next request, and returns its number.
    pub(crate) fn next(&self) -> u64 {
        let state = &mut *self.state();
        *state = State { number: state.number + 1, outcome: None };
        state.number
    }

    /// Sets the result of the request `number`. Returns `false` and changes nothing if that request
    /// has a result already, or is not the current one.
    pub(crate) fn set_outcome(&self, number: u64, outcome: Outcome) -> bool {
        let state = &mut *self.state();
        let is_new = state.number == number && state.outcome.is_none();
        if is_new {
            state.outcome = Some(outcome);
        }
        is_new
    }

    /// Returns the result of the request `number`, if it is known.
    pub(crate) fn of(&self, number: u64) -> Option<Outcome> {
        let state = self.state();
        if state.number == number { state.outcome.clone() } else { None }
    }
}
