//! The bounded queue of batches between two tasks, limited in events and in bytes.
//!
//! A sender waits if the queue is full, or if its batch would exceed the bytes of the queue, unless the flow file sets
//! that batches are given up instead. This is the only form of backpressure in the engine. A batch that is larger than
//! the whole queue is accepted once the queue is empty, so that no message is too large to be sent.

#[doc(hidden)]
pub mod hand_over;
pub(crate) mod mailbox;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod stalled;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_abi::batch::{HostBatch, Rejected};
use tremor_pdk::Batch;

use self::mailbox::Mailbox;
pub(crate) use self::{
    mailbox::{Load, Overflow},
    receiver::Receiver,
    sender::Sender,
};
use crate::clock::Clock;
use crate::engine::{
    processors::Processors,
    tracking::{stats::Left, token::InFlight},
    tuning::{QUEUE_BYTES, QUEUE_EVENTS},
};

/// Limits of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Number of events at which the queue is full. The last batch that is accepted may exceed this number.
    pub events: usize,
    /// Maximum memory in bytes. Payloads, documents, edited values, events, and the buffers and headers of batches
    /// count.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { events: QUEUE_EVENTS, bytes: QUEUE_BYTES }
    }
}

/// A batch in a queue.
pub(crate) struct Queued {
    pub(crate) item: InFlight,
    pub(crate) payload: Payload,
}

/// The encoded form of a queued batch, if the sender has encoded it.
pub(crate) enum Payload {
    /// The batch is not encoded.
    Values,
    /// The sender has encoded the batch for the sink.
    Encoded {
        encoded: Batch,
        /// Events that could not be encoded.
        rejected: Vec<Rejected>,
    },
}

impl From<InFlight> for Queued {
    fn from(item: InFlight) -> Self {
        Self { item, payload: Payload::Values }
    }
}

impl Queued {
    /// Returns the number of events, including those that could not be encoded.
    pub(crate) fn events(&self) -> usize {
        self.item.batch.len() + self.rejected().len()
    }

    /// Fails all events.
    fn fail(self) {
        let Self { item: InFlight { batch, token, .. }, payload } = self;
        let rejected = match &payload {
            Payload::Encoded { rejected, .. } => &rejected[..],
            Payload::Values => &[],
        };
        token.fail(batch.events().iter().chain(rejected.iter().map(|rejected| &rejected.event)));
    }

    /// Returns the numbers of events, to be counted if the batch fails.
    pub(crate) fn left(&self) -> Left {
        let events = self.events();
        Left { events, lost: if self.item.token.is_tracked() { 0 } else { events } }
    }

    fn rejected(&self) -> &[Rejected] {
        match &self.payload {
            Payload::Encoded { rejected, .. } => rejected,
            Payload::Values => &[],
        }
    }

    /// Returns the part of a queue's limits that the batch uses.
    pub(crate) fn load(&self) -> Load {
        let encoded = match &self.payload {
            Payload::Encoded { encoded, .. } if encoded.has_buffers_of(&self.item.batch) => {
                encoded.weight_without_buffers()
            }
            Payload::Encoded { encoded, .. } => encoded.footprint(),
            Payload::Values => 0,
        };
        let containers = size_of::<(Self, Load)>() + size_of_val(self.rejected());
        Load { events: self.events(), bytes: self.item.batch.footprint() + encoded + containers }
    }

    fn is_encoded(&self) -> bool {
        matches!(self.payload, Payload::Encoded { .. })
    }
}

/// Creates a queue between tasks that share `processors`. Waits of senders are measured by `clock`.
pub(crate) fn bounded(
    bounds: Bounds,
    overflow: Overflow,
    processors: &Processors,
    clock: &Clock,
) -> (Sender, Receiver) {
    let mailbox = Arc::new(Mailbox::new(bounds, overflow, clock.clone()));
    let sender = Sender::new(mailbox.clone());
    (sender, Receiver::new(mailbox, processors.clone()))
}
