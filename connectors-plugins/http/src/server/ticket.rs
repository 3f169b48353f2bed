//! Handle of a request, with which its result is reported.

use std::sync::Arc;

use super::{peer::Peer, request_state::Outcome};

/// A request that is in the queue or in the flow.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub(crate) peer: Arc<Peer>,
    number: u64,
}

impl Ticket {
    /// Starts the next request of a connection.
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        Self { number: peer.request_state.next(), peer }
    }

    /// Sets the result and wakes the connection, unless the request has a result already.
    pub(crate) fn set_outcome(&self, outcome: Outcome) {
        if self.peer.request_state.set_outcome(self.number, outcome) {
            self.peer.wake_task();
        }
    }

    /// Adds a pull that has a part of the request, while another part is in the queue.
    pub(crate) fn add_part(&self) {
        self.peer.request_state.add_part(self.number);
    }

    /// Records that a pull with a part of the request has ended, and wakes the connection if that was the last part.
    pub(crate) fn end_part(&self) {
        if self.peer.request_state.end_part(self.number) {
            self.peer.wake_task();
        }
    }

    /// Returns the result, if it is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.peer.request_state.of(self.number)
    }

    /// Returns whether both tickets belong to the same request.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer) && self.number == other.number
    }
}
