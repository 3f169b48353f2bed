//! Events that are stored as frames, such as those of queues on disk.

use tremor_abi::{
    batch::{Format, HostBatch, Pool},
    frame::{self, Medium},
};
use tremor_pdk::{Batch, Error};

use super::{json, msgpack};

/// Number of batch storages that a reader keeps for reuse.
const POOLED: usize = 8;

/// Reads frames that are stored on disk into batches.
pub struct FrameReader {
    pool: Pool,
    json: json::Decoder,
    msgpack: msgpack::Decoder,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self {
            pool: Pool::new(POOLED),
            json: json::Decoder::new(json::DecodeOptions::default()),
            msgpack: msgpack::Decoder::new(msgpack::DecodeOptions::default()),
        }
    }
}

impl FrameReader {
    /// Returns the events of a frame. Events that a codec can no longer decode stay bytes, at the end of the batch.
    ///
    /// # Errors
    /// Returns an error if this version of the runtime does not know a part of the frame.
    pub fn read(&mut self, frame: &[u8]) -> Result<Batch, Error> {
        let Self { pool, json, msgpack } = self;
        let decoded = frame::decode(frame, pool, Medium::Disk).map_err(Error::unsupported)?;
        let mut batch = decoded.batch;
        let rejected = frame::restore(&mut batch, |format, bytes, nodes, span| match format {
            Format::Json => json.decode(bytes, span, nodes).map_err(Error::bad_data),
            Format::Msgpack => msgpack.decode(bytes, span, nodes).map_err(Error::bad_data),
        });
        if !rejected.is_empty() {
            let all = batch.events().iter().copied();
            let all: Vec<_> = all.chain(rejected.into_iter().map(|it| it.event)).collect();
            batch.set_events(&all);
        }
        Ok(batch)
    }
}
