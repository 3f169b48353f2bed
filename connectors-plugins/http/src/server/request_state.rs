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
    /// Number of pulls that have a part of the request and have not ended, plus 1 while a part of the request is in
    /// the queue.
    parts: usize,
}

impl RequestState {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Starts the next request, and returns its number.
    pub(crate) fn next(&self) -> u64 {
        let state = &mut *self.state();
        *state = State { number: state.number + 1, outcome: None, parts: 1 };
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

    /// Adds a pull that has a part of the request `number`, while another part is in the queue.
    pub(crate) fn add_part(&self, number: u64) {
        let state = &mut *self.state();
        if state.number == number {
            state.parts += 1;
        }
    }

    /// Records that a pull with a part of the request `number` has ended. With the last part, the result of the request
    /// is that its events are delivered, unless it has a result already. Returns `true` if the result was set.
    pub(crate) fn end_part(&self, number: u64) -> bool {
        let state = &mut *self.state();
        if state.number != number {
            return false;
        }
        state.parts = state.parts.saturating_sub(1);
        let is_delivered = state.parts == 0 && state.outcome.is_none();
        if is_delivered {
            state.outcome = Some(Outcome::Delivered);
        }
        is_delivered
    }

    /// Returns the result of the request `number`, if it is known.
    pub(crate) fn of(&self, number: u64) -> Option<Outcome> {
        let state = self.state();
        if state.number == number { state.outcome.clone() } else { None }
    }
}
