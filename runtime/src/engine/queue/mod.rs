//! The bounded queue between two tasks: of batches, by events and by bytes.
//!
//! A full queue makes its senders wait; that is the whole of backpressure. So does one that would
//! exceed its bytes with the next batch; a batch that exceeds them by itself passes alone, so that
//! no message is too large to pass at all.

#[doc(hidden)]
pub mod hand_over;
pub(crate) mod mailbox;
pub(crate) mod receiver;
pub(crate) mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tremor_abi::batch::{HostBatch, Rejected};
use tremor_pdk::Batch;

use self::mailbox::{Load, Mailbox};
pub(crate) use self::{receiver::Receiver, sender::Sender};
use crate::engine::{
    account::token::InFlight,
    processors::Processors,
    tuning::{QUEUE_BYTES, QUEUE_EVENTS},
};

/// How much a queue holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// In events.
    pub events: usize,
    /// In bytes of memory: payloads, documents, edited values, events, and the buffers and headers of batches.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { events: QUEUE_EVENTS, bytes: QUEUE_BYTES }
    }
}

/// What goes through a queue.
pub(crate) struct Queued {
    pub(crate) item: InFlight,
    pub(crate) payload: Payload,
}

/// What has been done to a batch, and what remains for the task that takes it.
pub(crate) enum Payload {
    /// Its events are values.
    Values,
    /// Its events are values, and encoded already.
    Encoded {
        encoded: Batch,
        /// Those that could not be.
        rejected: Vec<Rejected>,
    },
}

/// Numbers of events that were left in a queue or with a sink at the end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) events: usize,
    /// Events whose source is not told that they fail.
    pub(crate) lost: usize,
}

impl From<InFlight> for Queued {
    fn from(item: InFlight) -> Self {
        Self { item, payload: Payload::Values }
    }
}

impl Queued {
    /// How many events there are to account for.
    pub(crate) fn events(&self) -> usize {
        self.item.batch.len() + self.rejected().len()
    }

    fn rejected(&self) -> &[Rejected] {
        match &self.payload {
            Payload::Encoded { rejected, .. } => rejected,
            Payload::Values => &[],
        }
    }

    fn load(&self) -> Load {
        let encoded = match &self.payload {
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

/// A queue between tasks of one run.
pub(crate) fn bounded(bounds: Bounds, processors: &Processors) -> (Sender, Receiver) {
    let mailbox = Arc::new(Mailbox::new(bounds));
    let sender = Sender::new(mailbox.clone());
    (sender, Receiver::new(mailbox, processors.clone()))
}
