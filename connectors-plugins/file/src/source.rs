//! The source: reads one file once, or follows files.

use tremor_pdk::{Acks, prelude::*};

use crate::{read::Reader, tail::Tail};

/// A source of one of two kinds.
pub enum FileSource {
    /// Reads one file from its start to its end.
    Once(Box<Reader>),
    /// Reads files with `follow`, with a checkpoint or of a pattern.
    Tail(Box<Tail>),
}

impl Source for FileSource {
    type Batch = RawBatch;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        match self {
            Self::Once(reader) => reader.acks(),
            Self::Tail(tail) => tail.acks(),
        }
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        match self {
            Self::Once(reader) => reader.pull(batch).await,
            Self::Tail(tail) => tail.pull(batch).await,
        }
    }

    async fn close(&mut self) -> Result<()> {
        match self {
            Self::Once(reader) => reader.close().await,
            Self::Tail(tail) => tail.close().await,
        }
    }
}
