//! The source: emits the same events repeatedly.

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
    /// Index of the next event.
    pub(crate) next: usize,
    /// Number of streams to which the events are assigned in turn.
    pub(crate) streams: u64,
    /// Tracks acknowledged positions; `None` unless `acknowledged` is set.
    pub(crate) marks: Option<Watermarks<u64>>,
    /// Number of emitted events.
    pub(crate) emitted: u64,
    /// Number of repetitions left, including the current one.
    pub(crate) iterations: u64,
    /// Time to replay the file after the warm-up, in ns; `None` if unlimited.
    pub(crate) duration_ns: Option<u64>,
    /// Number of events per second; `None` for as many as the flow accepts.
    pub(crate) rate: Option<Rate>,
    /// Schedule of events at a rate; starts with the first pull.
    pub(crate) schedule: Option<Schedule>,
}

impl Source for Replay {
    type Batch = RawBatch;

    fn acks(&mut self) -> Option<Box<dyn Acks>> {
        self.marks.clone().map(|marks| Box::new(marks) as Box<dyn Acks>)
    }

    async fn pull(&mut self, batch: &mut RawBatch) -> Result<Pull> {
        // Read the clock once for each batch, because its events are emitted together.
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
            self.emitted += batch.len() as u64;
            // Failed events are not replayed.
            while let Begin::Rewind(_) = marks.begin(batch) {}
            if let Begin::Write(mut writer) = marks.begin(batch) {
                writer.skip(0, self.emitted);
            }
            // Take the acknowledged positions, as a real source does to commit them.
            drop(marks.take());
        }
        Ok(pull)
    }
}

impl Replay {
    /// Fills the batch with events that are emitted now.
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

    /// Adds the events that are due, each with the time at which it was due, so that delays count
    /// as latency. Events that were due before the end are emitted, even if the end has passed.
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
                // Return a wait only with an empty batch. With events, the wait would start only
                // after they were processed, so the next event would be late.
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
