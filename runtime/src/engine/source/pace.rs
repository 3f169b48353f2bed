//! How much a source is asked for at a time.
//!
//! What is pulled together arrives together, so a large batch is a late one; a small batch pays for
//! its way through the tasks with few events. A pull is therefore asked for about as many events as
//! its task handles in [`BATCH_NS`], or in a few times what it takes to hand them over where that is
//! more. Where the sink takes far longer for a batch, as it does if it waits for an answer, larger
//! batches pay: then they grow.

use std::time::Duration;

use tremor_pdk::Limit;

use crate::engine::{
    queue::sender::Spent,
    tuning::{BATCH_EVENTS, BATCH_NS, BATCH_TO_HANDING, BATCH_TO_SINK, LONG_WAIT},
};

/// How much a source is asked for.
#[derive(Debug)]
pub(crate) struct Pace {
    limit: Limit,
    /// Of one event, in units of 1/16 ns, smoothed.
    cost: Option<u64>,
    /// Of handing a batch over, in ns, smoothed.
    handing: Option<u64>,
    /// Of running the sink, in ns, smoothed.
    running: Option<u64>,
    /// Waiting for in-order sections, in 1/1024 of the time that a batch takes, smoothed.
    in_order: u64,
    /// What the sink makes of it.
    least: u32,
    /// Where the limit is not to change.
    fixed: bool,
}

impl Default for Pace {
    fn default() -> Self {
        let least = *BATCH_EVENTS.start();
        let limit = Limit::default();
        Self { limit, cost: None, handing: None, running: None, in_order: 0, least, fixed: false }
    }
}

impl Pace {
    /// Always the same, so that a run does the same work every time.
    pub(crate) fn fixed(events: u32) -> Self {
        Self { limit: Limit { events, ..Limit::default() }, fixed: true, ..Self::default() }
    }

    /// Whether every run is to do the same work.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Whether more than half of the time goes by in waiting for in-order sections.
    pub(crate) fn mostly_waits(&self) -> bool {
        self.in_order > 512
    }

    /// Forgets how long earlier batches waited for in-order sections.
    pub(crate) fn forget_waits(&mut self) {
        self.in_order = 0;
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// Learns from a pull of so many events that took so long with all that became of it, of which
    /// so much was spent on queues.
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

/// What is new counts for an eighth, so that one interrupt changes little.
fn smooth(mean: &mut Option<u64>, new: u64) -> u64 {
    let next = mean.map_or(new, |mean| mean.saturating_mul(7).saturating_add(new) / 8);
    *mean = Some(next);
    next
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pace, Spent};

    const NOTHING: Spent = Spent {
        waiting: Duration::ZERO,
        handing: Duration::ZERO,
        running: Duration::ZERO,
        in_order: Duration::ZERO,
        woke: false,
    };

    fn after(pulls: usize, ns_per_event: u64, spent: Spent) -> u32 {
        let mut pace = Pace::default();
        for _ in 0..pulls {
            let events = pace.limit().events;
            let busy = Duration::from_nanos(u64::from(events) * ns_per_event);
            pace.learn(
                events as usize,
                busy + spent.waiting + spent.handing + spent.running,
                spent,
            );
        }
        pace.limit().events
    }

    #[test]
    fn a_pull_is_asked_for_what_takes_about_24_microseconds() {
        for (ns_per_event, expected) in [(100, 240), (500, 48), (750, 32), (1, 1_024)] {
            assert_eq!(after(1, ns_per_event, NOTHING), expected, "{ns_per_event} ns");
            assert_eq!(after(100, ns_per_event, NOTHING), expected, "{ns_per_event} ns");
        }
    }

    #[test]
    fn few_events_are_never_asked_for_even_where_each_takes_long() {
        assert_eq!(after(10, 1_000_000, NOTHING), 16);
    }

    #[test]
    fn batches_grow_where_to_hand_them_over_takes_long() {
        let spent = Spent { handing: Duration::from_micros(10), ..NOTHING };
        assert_eq!(after(10, 500, spent), 160);
        let spent = Spent { handing: Duration::from_millis(1), ..NOTHING };
        assert_eq!(after(10, 500, spent), 500);
    }

    #[test]
    fn batches_grow_where_the_sink_that_is_run_has_costs_for_each() {
        let spent = Spent { running: Duration::from_micros(30), ..NOTHING };
        assert_eq!(after(10, 500, spent), 120);
    }

    #[test]
    fn batches_grow_while_a_sink_takes_long_for_each() {
        let spent = Spent { waiting: Duration::from_millis(5), ..NOTHING };
        assert_eq!(after(3, 1_000, spent), 128);
        assert_eq!(after(10, 1_000, spent), 1_024);
    }

    #[test]
    fn one_slow_batch_does_not_change_much() {
        let mut pace = Pace::default();
        pace.learn(100, Duration::from_micros(50), NOTHING);
        assert_eq!(pace.limit().events, 48);
        pace.learn(30, Duration::from_micros(30), NOTHING);
        assert_eq!(pace.limit().events, 42);
    }

    #[test]
    fn a_fixed_pace_stays() {
        let mut pace = Pace::fixed(64);
        pace.learn(64, Duration::from_secs(1), NOTHING);
        assert_eq!(pace.limit().events, 64);
    }
}
