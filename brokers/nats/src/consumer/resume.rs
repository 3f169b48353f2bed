//! Where a consumer goes on that somebody deletes while it is read.

use std::sync::{Mutex, PoisonError};

use async_nats::{datetime::DateTime, jetstream::consumer::DeliverPolicy};

/// How far a consumer was when it was last seen, as long as this connector lives.
#[derive(Default)]
pub(super) struct Resume(Mutex<Option<Seen>>);

struct Seen {
    /// When its stream was made: the numbers of another one say nothing.
    stream: DateTime,
    /// Everything up to this number is acknowledged, by any member.
    floor: u64,
}

impl Resume {
    /// Where a consumer of a stream is to begin that is made now; none, if it was not seen before.
    pub(super) fn from(&self, stream: DateTime) -> Option<DeliverPolicy> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.as_ref().filter(|it| it.stream == stream)?;
        Some(DeliverPolicy::ByStartSequence { start_sequence: seen.floor + 1 })
    }

    /// It was found, or made.
    pub(super) fn begin(&self, stream: DateTime, floor: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Seen { stream, floor });
    }

    /// It is so far.
    pub(super) fn note(&self, floor: u64) {
        if let Some(seen) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            seen.floor = floor;
        }
    }
}
