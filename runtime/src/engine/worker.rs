//! Takes batches through, from the pull into queues. A source has one for its own task, and where
//! batches are best decoded and encoded by one core, others for tasks that help it.

use std::time::Instant;

use tremor_pdk::{Batch, Error, abi::batch::Rejected};

use super::{
    intake::Pulled,
    pace::Pace,
    router::{Router, Ticket},
};
use crate::codec::BatchDecoder;

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

    /// Takes what was pulled at `since` into queues. Whether that woke somebody who was parked.
    pub(crate) async fn take_through(
        &mut self,
        pulled: Pulled,
        ticket: Ticket,
        since: Instant,
    ) -> bool {
        let Pulled { events, mut batch, mut rejected, discarded, whole, token } = pulled;
        let stats = &self.router.stats;
        stats.taken(batch.len() + rejected.len() + discarded + usize::from(!whole));
        stats.discarded(discarded);
        if !whole {
            stats.failed(1);
            drop(token.clone());
        }
        rejected.extend(match &mut self.codec {
            Some(codec) => codec.decode_batch(&mut batch),
            None => without_codec(&mut batch),
        });
        self.router.take_in(ticket, batch, rejected, token).await;
        let spent = self.router.take_spent();
        self.pace.learn(events, since.elapsed(), spent);
        spent.woke
    }
}

/// A structured source has no business with raw bytes.
fn without_codec(batch: &mut Batch) -> Vec<Rejected> {
    batch.decode_with(|_, _, _| {
        Err(Error::bad_data("the connector says it is structured, but its source sent raw bytes"))
    })
}
