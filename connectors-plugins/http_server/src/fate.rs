//! What becomes of a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its event is in the flow.
    Accepted,
    /// Its events are delivered, or dead letters, or were discarded on purpose.
    Delivered,
    /// One of its events at least was not.
    Failed,
    /// It could not be decoded, or one of its events could not, and this is why. Its others are delivered.
    Undecodable(Arc<str>),
}

/// What is known of the last request of a connection that went into the room. There is one at a time.
#[derive(Default)]
pub(crate) struct Fate(Mutex<State>);

#[derive(Default)]
struct State {
    /// Its number: of those before it there may still be something to hear.
    number: u64,
    outcome: Option<Outcome>,
}

impl Fate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next request.
    pub(crate) fn next(&self) -> u64 {
        let state = &mut *self.state();
        *state = State { number: state.number + 1, outcome: None };
        state.number
    }

    /// Says what has become of the request of this number, and whether nothing was known of it. What was said first
    /// holds.
    pub(crate) fn settle(&self, number: u64, outcome: Outcome) -> bool {
        let state = &mut *self.state();
        let is_new = state.number == number && state.outcome.is_none();
        if is_new {
            state.outcome = Some(outcome);
        }
        is_new
    }

    /// What has become of the request of this number, if that is known.
    pub(crate) fn of(&self, number: u64) -> Option<Outcome> {
        let state = self.state();
        if state.number == number { state.outcome.clone() } else { None }
    }
}
