//! The size of a source's batches.
//!
//! The events of a batch arrive at the sink together, so large batches add latency. Each batch has a fixed cost, so
//! small batches lower the throughput. A pull therefore asks for about as many events as the task handles in a target
//! time within [`BATCH_NS`]. The target is a few times the time that it takes to hand a batch over, or to run the sink
//! for it. If batches wait long for the queue of a sink, the sink is assumed to have a high cost for each batch, and
//! batches grow further.

use std::time::Duration;

use tremor_abi::batch::Limit;

use crate::engine::{
    queue::sender::Spent,
    tuning::{BATCH_EVENTS, BATCH_NS, BATCH_TO_HANDING, BATCH_TO_SINK, LONG_WAIT},
};

/// The number of events that each pull of a source asks for, chosen from the measured costs of earlier batches.
#[derive(Debug)]
pub(crate) struct BatchSizer {
    limit: Limit,
    /// Smoothed time per event, in units of 1/16 ns. `None` before the first batch.
    cost: Option<u64>,
    /// Smoothed time to hand a batch over, in ns. `None` before the first batch.
    handing: Option<u64>,
    /// Smoothed time to run the sink for a batch, in ns. `None` before the first batch.
    running: Option<u64>,
    /// Smoothed share of a batch's time that is spent on waiting for in-order sections, in units of 1/1024.
    in_order: u64,
    /// Minimum number of events. The number doubles with each batch that waits for a full queue for at least
    /// [`LONG_WAIT`], and halves with each batch that does not.
    least: u32,
    /// `true` if the limit never changes.
    fixed: bool,
}

impl Default for BatchSizer {
    fn default() -> Self {
        let least = *BATCH_EVENTS.start();
        let limit = Limit::default();
        Self { limit, cost: None, handing: None, running: None, in_order: 0, least, fixed: false }
    }
}

impl BatchSizer {
    /// Creates a sizer that always asks for `events` events, so that each run does the same work.
    pub(crate) fn fixed(events: u32) -> Self {
        Self { limit: Limit { events, ..Limit::default() }, fixed: true, ..Self::default() }
    }

    /// Returns whether the number of events never changes.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Returns whether batches spend more than half of their time waiting for in-order sections.
    pub(crate) fn mostly_waits(&self) -> bool {
        self.in_order > 512
    }

    /// Resets the measured wait for in-order sections to zero.
    pub(crate) fn forget_waits(&mut self) {
        self.in_order = 0;
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// Updates the limit after a batch of `events` events. The pull and the processing of the batch took `took`
    /// together. `spent` is the part of that time that was spent on queues, receivers and in-order sections.
    pub(crate) fn learn(&mut self, events: usize, took: Duration, spent: Spent) {
        if self.fixed || events == 0 {
            return;
        }
        let busy =
            took.saturating_sub(spent.waiting + spent.handing + spent.running + spent.in_order);
        let busy = nanoseconds(busy);
        let cost = smooth(&mut self.cost, busy.saturating_mul(16) / events as u64).max(1);
        let handing = smooth(&mut self.handing, nanoseconds(spent.handing));
        let running = smooth(&mut self.running, nanoseconds(spent.running));
        let share = nanoseconds(spent.in_order).saturating_mul(1024);
        self.in_order = (self.in_order * 7 + share / nanoseconds(took).max(1)) / 8;
        let waited_long = spent.waiting >= LONG_WAIT;
        self.least = if waited_long { self.least * 2 } else { self.least / 2 }
            .clamp(*BATCH_EVENTS.start(), *BATCH_EVENTS.end());
        let aim =
            handing.saturating_mul(BATCH_TO_HANDING).max(running.saturating_mul(BATCH_TO_SINK));
        let aim = aim.clamp(*BATCH_NS.start(), *BATCH_NS.end());
        let events = u32::try_from(aim * 16 / cost).unwrap_or(u32::MAX);
        self.limit.events = events.clamp(self.least, *BATCH_EVENTS.end());
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Updates an exponential moving average and returns it. A new value has a weight of one eighth, so that a single batch
/// that was interrupted changes the average only a little.
fn smooth(mean: &mut Option<u64>, new: u64) -> u64 {
    let next = mean.map_or(new, |mean| mean.saturating_mul(7).saturating_add(new) / 8);
    *mean = Some(next);
    next
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BatchSizer, Spent};

    const NOTHING: Spent = Spent {
        waiting: Duration::ZERO,
        handing: Duration::ZERO,
        running: Duration::ZERO,
        in_order: Duration::ZERO,
        inside: Duration::ZERO,
        woke: false,
    };

    fn after(pulls: usize, ns_per_event: u64, spent: Spent) -> u32 {
        let mut sizer = BatchSizer::default();
        for _ in 0..pulls {
            let events = sizer.limit().events;
            let busy = Duration::from_nanos(u64::from(events) * ns_per_event);
            sizer.learn(
                events as usize,
                busy + spent.waiting + spent.handing + spent.running,
                spent,
            );
        }
        sizer.limit().events
    }

    #[test]
    fn batch_takes_about_24_microseconds() {
        for (ns_per_event, expected) in [(100, 240), (500, 48), (750, 32), (1, 1_024)] {
            assert_eq!(after(1, ns_per_event, NOTHING), expected, "{ns_per_event} ns");
            assert_eq!(after(100, ns_per_event, NOTHING), expected, "{ns_per_event} ns");
        }
    }

    #[test]
    fn slow_events_have_batches_of_at_least_16() {
        assert_eq!(after(10, 1_000_000, NOTHING), 16);
    }

    #[test]
    fn batches_grow_with_the_cost_of_handing_over() {
        let spent = Spent { handing: Duration::from_micros(10), ..NOTHING };
        assert_eq!(after(10, 500, spent), 160);
        let spent = Spent { handing: Duration::from_millis(1), ..NOTHING };
        assert_eq!(after(10, 500, spent), 500);
    }

    #[test]
    fn batches_grow_with_the_cost_of_running_the_sink() {
        let spent = Spent { running: Duration::from_micros(30), ..NOTHING };
        assert_eq!(after(10, 500, spent), 120);
    }

    #[test]
    fn batches_grow_while_the_queue_stays_full() {
        let spent = Spent { waiting: Duration::from_millis(5), ..NOTHING };
        assert_eq!(after(3, 1_000, spent), 128);
        assert_eq!(after(10, 1_000, spent), 1_024);
    }

    #[test]
    fn one_slow_batch_does_not_change_much() {
        let mut sizer = BatchSizer::default();
        sizer.learn(100, Duration::from_micros(50), NOTHING);
        assert_eq!(sizer.limit().events, 48);
        sizer.learn(30, Duration::from_micros(30), NOTHING);
        assert_eq!(sizer.limit().events, 42);
    }

    #[test]
    fn fixed_size_does_not_change() {
        let mut sizer = BatchSizer::fixed(64);
        sizer.learn(64, Duration::from_secs(1), NOTHING);
        assert_eq!(sizer.limit().events, 64);
    }
}
