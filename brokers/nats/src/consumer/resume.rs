//! Start position for a consumer that is recreated because it was deleted while it was read.

use std::sync::Mutex;

use async_nats::{datetime::DateTime, jetstream::consumer::DeliverPolicy};
use tremor_pdk::lock;

/// Last known acknowledged position of the consumer, which is kept across connections.
#[derive(Default)]
pub(super) struct Resume(Mutex<Option<Seen>>);

struct Seen {
    /// Creation time of the stream. Sequence numbers of another stream with the same name are not comparable.
    stream: DateTime,
    /// Sequence number up to which all messages are acknowledged by the readers of the consumer.
    floor: u64,
}

impl Resume {
    /// Returns the start of a consumer that is created now; `None` if no position of this stream is known.
    pub(super) fn start(&self, stream: DateTime) -> Option<DeliverPolicy> {
        let seen = lock(&self.0);
        let seen = seen.as_ref().filter(|it| it.stream == stream)?;
        Some(DeliverPolicy::ByStartSequence { start_sequence: seen.floor + 1 })
    }

    /// Stores the position of a consumer that was found or created.
    pub(super) fn set(&self, stream: DateTime, floor: u64) {
        *lock(&self.0) = Some(Seen { stream, floor });
    }

    /// Updates the acknowledged position.
    pub(super) fn update(&self, floor: u64) {
        if let Some(seen) = &mut *lock(&self.0) {
            seen.floor = floor;
        }
    }
}
