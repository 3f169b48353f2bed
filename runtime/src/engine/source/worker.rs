//! Takes batches through, from the pull into queues. A source has one for its own task, and where
//! batches are best decoded and encoded by one core, others for tasks that help it.

use std::time::Instant;

use tremor_abi::batch::{HostBatch, Rest};
use tremor_pdk::{Batch, Error};

use crate::engine::{
    account::token::InFlight,
    route::router::{Router, Ticket},
    source::{pace::Pace, preprocessors::Preprocessed},
};
use crate::{
    codec::{BatchDecoder, Decoded},
    executor,
};

/// What one task takes batches through with.
pub(crate) struct Worker {
    pub(crate) router: Router,
    /// None for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchDecoder>>,
    pub(crate) pace: Pace,
}

impl Worker {
    /// A batch for a pull.
    pub(crate) fn batch(&self) -> Batch {
        let mut batch = Batch::from_pool(&self.router.pool);
        batch.set_limit(self.pace.limit());
        batch
    }

    /// Takes what was pulled at `since` into queues. Whether that woke a task that was parked.
    pub(crate) async fn take_through(
        &mut self,
        pulled: Preprocessed,
        mut ticket: Ticket,
        since: Instant,
    ) -> bool {
        let Preprocessed {
            events,
            bytes,
            mut batch,
            mut rejected,
            discarded,
            whole,
            token,
            is_made_here: _,
        } = pulled;
        let stats = &self.router.stats;
        stats.bytes(bytes);
        stats.taken(batch.len() + rejected.len() + discarded + usize::from(!whole));
        stats.discarded(discarded);
        if !whole {
            stats.failed(1);
            stats.unrecoverable(usize::from(!token.is_tracked()));
            drop(token.clone());
        }
        // Usually a batch is decoded at once, and nothing is left.
        let mut rest = Rest::default();
        if batch.is_heavy() {
            if !rejected.is_empty() {
                // They refer to the buffers as they are.
                let mut shown = batch.clone();
                shown.retain(|_| false);
                ticket.set_goes_on(true);
                let rejected = std::mem::take(&mut rejected);
                let item = InFlight::new(shown, token.clone());
                self.router.route(&mut ticket, |routes| routes.take_in(item, rejected)).await;
            }
            rest.put(batch);
            batch = rest.take().unwrap_or_default();
        }
        loop {
            let decoded = match &mut self.codec {
                Some(codec) => codec.decode_batch(&mut batch),
                None => without_codec(&mut batch),
            };
            rejected.extend(decoded.rejected);
            self.router.stats.discarded(decoded.discarded);
            if let Some(undecoded) = batch.take_undecoded() {
                rest.put(undecoded);
            }
            ticket.set_goes_on(!rest.is_empty());
            if rest.is_empty() {
                let item = InFlight::new(batch, token);
                self.router.route(&mut ticket, |routes| routes.take_in(item, rejected)).await;
                break;
            }
            let rejected = std::mem::take(&mut rejected);
            let item = InFlight::new(batch, token.clone());
            self.router.route(&mut ticket, |routes| routes.take_in(item, rejected)).await;
            batch = rest.take().unwrap_or_default();
            // A queue with capacity does not wait, so that all of the rest would be decoded in one poll.
            executor::yield_now().await;
        }
        drop(ticket);
        let spent = self.router.take_spent();
        self.pace.learn(events, since.elapsed(), spent);
        spent.woke
    }
}

/// A structured source has no business with raw bytes.
fn without_codec(batch: &mut Batch) -> Decoded {
    let rejected = batch.decode_with(|_, _, _| {
        Err(Error::bad_data("the connector says it is structured, but its source sent raw bytes"))
    });
    Decoded { rejected, discarded: 0 }
}
