//! The source: the same events, again and again.

use std::{sync::Arc, time::Duration};

use tremor_pdk::{Acks, Begin, Watermarks, prelude::*};

use crate::{
    data::Data,
    measurement::Clock,
    schedule::{Rate, Schedule},
};

/// Replays the events of a file.
#[derive(Debug)]
pub struct Replay {
    pub(crate) host: Host,
    pub(crate) clock: Arc<Clock>,
    pub(crate) data: Arc<Data>,
    /// The event that is next.
    pub(crate) next: usize,
    /// Of how many streams the events are, by turns.
    pub(crate) streams: u64,
    /// Up to where its events are acknowledged, where that is kept,
    pub(crate) marks: Option<Watermarks<u64>>,
    /// and how many it has brought.
    pub(crate) brought: u64,
    /// How often the file is still to be replayed from its start or, in the middle of it, to its end.
    pub(crate) iterations: u64,
    /// How long to go on after the warm-up.
    pub(crate) duration_ns: Option<u64>,
    /// How many events to offer, if not as many as are taken.
    pub(crate) rate: Option<Rate>,
    /// When; begins with the first pull.
    pub(crate) schedule: Option<Schedule>,
}

impl Source for Replay {
    type Batch = RawBatch;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.marks.clone().map(|marks| Box::new(marks) as Box<dyn Acks>)
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        // One clock read a batch: all its events are taken in at once.
        let now_ns = self.host.now_ns();
        let counts_from_ns = self.clock.start(now_ns);
        let end_ns = self.duration_ns.map(|duration_ns| counts_from_ns.saturating_add(duration_ns));
        let end_ns = end_ns.unwrap_or(u64::MAX);
        let pull = match self.rate {
            None => self.fill(batch, now_ns, end_ns),
            Some(rate) => {
                let schedule = self.schedule.take();
                let mut schedule = schedule.unwrap_or_else(|| Schedule::new(now_ns, rate));
                let pull = self.fill_with_due(batch, &mut schedule, now_ns, end_ns);
                self.schedule = Some(schedule);
                pull
            }
        };
        if let Some(marks) = &self.marks {
            self.brought += batch.len() as u64;
            // Events that have failed are not replayed.
            while let Begin::Rewind(_) = marks.begin(batch) {}
            if let Begin::Write(mut writer) = marks.begin(batch) {
                writer.skip(0, self.brought);
            }
            // Positions that a source would commit.
            drop(marks.take());
        }
        Ok(pull)
    }
}

impl Replay {
    /// As many events as the batch takes, all of them sent now.
    fn fill(&mut self, batch: &mut RawBatch, now_ns: u64, end_ns: u64) -> Pull {
        if now_ns >= end_ns {
            return Pull::Finished;
        }
        while self.iterations > 0 && !batch.is_full() {
            self.push(batch);
        }
        batch.for_each_mut(|mut event| event.set_ingest_ns(now_ns));
        if self.iterations == 0 { Pull::Finished } else { Pull::Events }
    }

    /// The events that are due, each sent when it should have been: one that a stall held up has
    /// waited since then. What was due before the end is sent, however late.
    fn fill_with_due(
        &mut self,
        batch: &mut RawBatch,
        schedule: &mut Schedule,
        now_ns: u64,
        end_ns: u64,
    ) -> Pull {
        while self.iterations > 0 && !batch.is_full() {
            let due_ns = schedule.due_ns();
            if due_ns >= end_ns {
                return Pull::Finished;
            }
            if due_ns > now_ns {
                // With events in the batch the wait would begin only once they are handed over:
                // too late. The next pull says how long it is by then.
                let is_idle = batch.is_empty();
                let wait = Duration::from_nanos(due_ns - now_ns);
                return if is_idle { Pull::Idle(wait) } else { Pull::Events };
            }
            self.push(batch);
            schedule.take();
            if let Some(mut event) = batch.last_mut() {
                event.set_ingest_ns(due_ns);
            }
        }
        if self.iterations == 0 { Pull::Finished } else { Pull::Events }
    }

    #[inline]
    fn push(&mut self, batch: &mut RawBatch) {
        let event = self.data.event(self.next);
        let stream = if self.streams == 1 { 0 } else { self.next as u64 % self.streams };
        batch.stream(stream).push_message(event);
        self.next += 1;
        if self.next == self.data.len() {
            self.next = 0;
            self.iterations -= 1;
        }
    }
}
