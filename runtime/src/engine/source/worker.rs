//! Workers, which take batches from the preprocessors to the queues. A source has one worker for its own task, and one
//! for each helper task.

use std::time::Instant;

use tremor_abi::batch::{Event, HostBatch, RemainingInput};
use tremor_pdk::{Batch, Error};

use crate::engine::{
    route::router::{Router, Ticket},
    source::{batch_sizer::BatchSizer, preprocessors::Preprocessed},
    tracking::token::InFlight,
};
use crate::{
    codec::{BatchDecoder, Decoded},
    executor,
};

/// The decoder, router and batch sizer with which one task processes batches.
pub(crate) struct Worker {
    pub(crate) router: Router,
    /// `None` for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchDecoder>>,
    pub(crate) sizer: BatchSizer,
}

impl Worker {
    /// Creates an empty batch for a pull, with the current limits of the batch sizer.
    pub(crate) fn batch(&self) -> Batch {
        let mut batch = Batch::from_pool(&self.router.pool);
        batch.set_limit(self.sizer.limit());
        batch
    }

    /// Decodes preprocessed messages that were pulled at `since`, and routes the events to queues. Returns whether that
    /// has woken a parked task.
    pub(crate) async fn decode_and_route(
        &mut self,
        pulled: Preprocessed,
        mut ticket: Ticket,
        since: Instant,
    ) -> bool {
        // The pull and the preprocessors are in order too.
        let pulled_for = self.router.clock().elapsed(since);
        let Preprocessed { mut batch, mut rejected, discarded, whole, token, events, .. } = pulled;
        if self.codec.is_none() && batch.events().iter().any(Event::is_stream_end) {
            // An operator would take the end for an event, and reject it because it has no value.
            batch.retain(|event| !event.is_stream_end());
        }
        let stats = &self.router.stats;
        stats.bytes(pulled.bytes);
        stats.taken(batch.len() + rejected.len() + discarded + usize::from(!whole));
        stats.discarded(discarded);
        if !whole {
            stats.failed(1);
            stats.unrecoverable(usize::from(!token.is_tracked()));
            drop(token.clone());
        }
        // Usually a batch is decoded in one pass and nothing remains.
        let mut remainder = RemainingInput::default();
        if batch.is_heavy() {
            if !rejected.is_empty() {
                // Rejected events refer to the buffers of the batch, so they are routed before the batch is divided.
                let mut originals = batch.clone();
                originals.retain(|_| false);
                ticket.set_continues(true);
                let rejected = std::mem::take(&mut rejected);
                let item = InFlight::new(originals, token.clone());
                self.router.take_in(&mut ticket, item, rejected).await;
            }
            remainder.put(batch);
            batch = remainder.take().unwrap_or_default();
        }
        loop {
            let decoded = match &mut self.codec {
                Some(codec) => codec.decode_batch(&mut batch),
                None => without_codec(&mut batch),
            };
            rejected.extend(decoded.rejected);
            self.router.stats.discarded(decoded.discarded);
            if let Some(undecoded) = batch.take_undecoded() {
                remainder.put(undecoded);
            }
            ticket.set_continues(!remainder.is_empty());
            if remainder.is_empty() {
                let item = InFlight::new(batch, token);
                self.router.take_in(&mut ticket, item, rejected).await;
                break;
            }
            let rejected = std::mem::take(&mut rejected);
            let item = InFlight::new(batch, token.clone());
            self.router.take_in(&mut ticket, item, rejected).await;
            batch = remainder.take().unwrap_or_default();
            // Sending to a queue with capacity does not yield. Without a yield here, the whole remainder would be
            // decoded in one poll.
            executor::yield_now().await;
        }
        drop(ticket);
        let spent = self.router.take_spent();
        let took = self.router.clock().elapsed(since);
        let busy = took.saturating_sub(spent.waiting + spent.in_order);
        let in_order = if self.router.may_have_helpers { pulled_for + spent.inside } else { busy };
        self.router.stats.worked(busy, in_order);
        self.sizer.learn(events, took, spent);
        spent.woke
    }
}

/// Rejects raw bytes, which the source of a structured connector must not send.
fn without_codec(batch: &mut Batch) -> Decoded {
    let rejected = batch.decode_with(|_, _, _| {
        Err(Error::bad_data(
            "the connector is declared as structured, but its source sent raw bytes",
        ))
    });
    Decoded { rejected, discarded: 0 }
}
