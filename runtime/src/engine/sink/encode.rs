//! Encoding of the batches that a sink delivers.

use tremor_abi::batch::HostBatch;
use tremor_pdk::Batch;

use crate::engine::{
    queue::Payload,
    sink::{
        SinkSide,
        pending::{Part, Pending, State},
    },
    tracking::token::InFlight,
};

impl SinkSide {
    /// Returns the data for the sink: the encoded messages, or the unchanged values if the connector is structured.
    /// Events that cannot be encoded are removed from `item` and rejected.
    pub(super) async fn encode(&mut self, item: &mut InFlight, payload: Payload) -> Batch {
        let (mut encoded, mut rejected) = match (payload, &mut self.codec) {
            (Payload::Encoded { encoded, rejected }, _) => (encoded, rejected),
            (Payload::Values, Some(codec)) => {
                let terminator = self.postprocessors.terminator();
                codec.encode_batch(&mut item.batch, &self.router.pool, terminator)
            }
            (Payload::Values, None) => return item.batch.clone(),
        };
        rejected.extend(self.postprocessors.process(&mut encoded, &mut item.batch));
        if !rejected.is_empty() {
            self.router.reject(&item.batch, rejected, item.token.clone()).await;
        }
        let bytes = if encoded.has_buffers_of(&item.batch) {
            encoded.size_of_all()
        } else {
            encoded.bytes().len()
        };
        self.router.stats.bytes(bytes);
        encoded
    }

    /// Encodes a delivery again that the sink had before, because the sink may have changed the data.
    pub(super) async fn encode_again(&mut self, pending: &mut Pending) {
        let mut outgoing = None;
        for item in pending.items_mut() {
            let encoded = self.encode(item, Payload::Values).await;
            match &mut outgoing {
                None => outgoing = Some(encoded),
                Some(before) => {
                    if before.shares_buffers() {
                        // Appending to shared buffers would copy all of them.
                        let mut own = Batch::new();
                        own.append(std::mem::take(before));
                        *before = own;
                    }
                    before.append(encoded);
                }
            }
        }
        pending.recount();
        pending.state = State::Encoded { encoded: outgoing.unwrap_or_default() };
    }

    /// Encodes all waiting deliveries again, because the sink has another encoder or other postprocessors than before.
    /// Failed attempts of the deliveries do not count any more.
    pub(super) async fn encode_waiting(&mut self) {
        for mut item in self.backlog.take_waiting() {
            let encoded = self.encode(&mut item, Payload::Values).await;
            if item.batch.is_empty() {
                item.token.settle();
            } else {
                self.backlog.push(Part::new(item, Some(encoded)));
            }
        }
    }
}
