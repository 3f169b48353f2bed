//! The source: the same events, again and again.

use std::sync::Arc;

use tremor_pdk::prelude::*;

use crate::{data::Data, measurement::Clock};

/// Replays the events of a file.
#[derive(Debug)]
pub struct Replay {
    pub(crate) host: Host,
    pub(crate) clock: Arc<Clock>,
    pub(crate) data: Arc<Data>,
    /// The event that is next.
    pub(crate) next: usize,
    /// How often the file is still to be replayed from its start or, in the middle of it, to its end.
    pub(crate) iterations: u64,
    /// How long to go on behind the warm-up.
    pub(crate) duration_ns: Option<u64>,
}

impl Source for Replay {
    async fn pull(&mut self, batch: &mut Batch) -> Result<Pull> {
        // One clock read a batch: all its events are taken in at once.
        let now_ns = self.host.now_ns();
        let counts_from_ns = self.clock.start(now_ns);
        let end_ns = self.duration_ns.map(|duration_ns| counts_from_ns.saturating_add(duration_ns));
        if end_ns.is_some_and(|end_ns| now_ns >= end_ns) {
            return Ok(Pull::Finished);
        }
        while self.iterations > 0 && !batch.is_full() {
            batch.push_message(0, self.data.event(self.next));
            self.next += 1;
            if self.next == self.data.len() {
                self.next = 0;
                self.iterations -= 1;
            }
        }
        for event in batch.events_mut() {
            event.ingest_ns = now_ns;
        }
        Ok(if self.iterations == 0 { Pull::Finished } else { Pull::Events })
    }
}
