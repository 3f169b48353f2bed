//! Codecs over batches: what the engine works with.

use tremor_pdk::{
    Batch, Error,
    abi::batch::{Payload, Pool, Rejected},
};

use super::{Decoder, Encoder};

impl Decoder {
    /// Decodes the raw events of a batch. What it fails on is taken out and returned.
    pub fn decode_batch(&mut self, batch: &mut Batch) -> Vec<Rejected> {
        batch.decode_with(|bytes, nodes, span| {
            self.decode(bytes, span, nodes).map_err(Error::bad_data)
        })
    }
}

impl Encoder {
    /// Encodes the events of a batch, each with `suffix` behind it, into a new one. What it fails
    /// on is taken out of both and returned.
    pub fn encode_batch(
        &mut self,
        batch: &mut Batch,
        pool: &Pool,
        suffix: &[u8],
    ) -> (Batch, Vec<Rejected>) {
        batch.encode_with(pool, |payload, out| {
            let encoded = match payload {
                Payload::Document { bytes, nodes, root } => self.document(bytes, nodes, root, out),
                Payload::Value(value) => self.value(value, out),
            };
            encoded.map_err(Error::bad_data)?;
            out.extend_from_copy_slice(suffix);
            Ok(())
        })
    }
}
