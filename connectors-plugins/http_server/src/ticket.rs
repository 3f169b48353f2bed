//! A request, for whatever hears what becomes of it.

use std::sync::Arc;

use crate::{fate::Outcome, peer::Peer};

/// A request that is in the room, or in the flow.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub(crate) peer: Arc<Peer>,
    number: u64,
}

impl Ticket {
    /// That of the next request of a connection.
    pub(crate) fn new(peer: Arc<Peer>) -> Self {
        Self { number: peer.fate.next(), peer }
    }

    /// Says what has become of it, and wakes its connection. What was said first holds.
    pub(crate) fn settle(&self, outcome: Outcome) {
        if self.peer.fate.settle(self.number, outcome) {
            self.peer.wake_task();
        }
    }

    /// What has become of it, if that is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.peer.fate.of(self.number)
    }

    /// Whether it is the same request.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.peer, &other.peer) && self.number == other.number
    }
}
