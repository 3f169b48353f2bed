//! What becomes of a request, for its connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::peer::Peer;

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
}

/// A request that is in the room, or in the flow.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub(crate) peer: Arc<Peer>,
    number: u64,
}

impl Ticket {
    /// That of the next request of a connection.
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        let number = {
            let state = &mut *peer.fate.state();
            state.number += 1;
            state.outcome = None;
            state.number
        };
        Self { peer, number }
    }

    /// Says what has become of it, and wakes its connection. What was said first holds.
    pub(crate) fn settle(&self, outcome: Outcome) {
        {
            let state = &mut *self.peer.fate.state();
            if state.number != self.number || state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome);
        }
        self.peer.wake_task();
    }

    /// What has become of it, if that is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let state = self.peer.fate.state();
        if state.number == self.number { state.outcome.clone() } else { None }
    }

    /// Whether it is the same request.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer) && self.number == other.number
    }
}
