//! Waiting for another task on the processor, for a short while, before the executor parks this one.
//!
//! To park a thread and to wake it again can take longer than a batch does, on both sides. So a task
//! that found its queue empty, or full, first looks again for up to [`SPIN`]. It does so only where
//! that costs no other task anything and is worth it: while there are no more working tasks than
//! processors, and while batches follow one another closely.

use std::{hint::spin_loop, time::Instant};

use crate::engine::{
    processors::Processors,
    tuning::{CLOSE_NS, LOOKS, SPIN},
};

/// Looks again until it is `ready`, where that depends on a task that is at work, or until it has
/// been looked at for long enough.
pub(crate) fn briefly(processors: &Processors, ready: impl FnMut() -> bool) {
    if !processors.are_crowded() {
        look(ready);
    }
}

/// Waits on the processor until then, where that is so soon that a timer would be late and where
/// no other task needs the processor. Whether it did.
pub(crate) fn until(processors: &Processors, deadline: Instant) -> bool {
    let wait = deadline.saturating_duration_since(Instant::now());
    if wait.as_nanos() > u128::from(CLOSE_NS) || !processors.are_roomy() {
        return false;
    }
    look(|| Instant::now() >= deadline);
    true
}

/// What a task knows of its waits for another one.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    /// When the last batch passed.
    last: Option<Instant>,
    /// The time between two batches in ns, smoothed.
    interval: u64,
}

impl Spin {
    /// Looks again until it is `ready`, or until it has been looked at for long enough.
    pub(crate) fn wait(&self, processors: &Processors, ready: impl Fn() -> bool) {
        if !self.is_worth_it() || !processors.are_roomy() {
            return;
        }
        look(ready);
    }

    fn is_worth_it(&self) -> bool {
        self.last.is_some() && self.interval < CLOSE_NS
    }

    /// A batch has passed.
    pub(crate) fn passed(&mut self, now: Instant) {
        let Some(last) = self.last.replace(now) else { return };
        let interval = now.saturating_duration_since(last).min(10 * SPIN).as_nanos();
        let interval = u64::try_from(interval).unwrap_or(u64::MAX);
        // What is new counts for an eighth.
        self.interval = (self.interval * 7 + interval) / 8;
    }
}

/// Looks until it is ready, or has been looked at for long enough.
fn look(mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut looks = 0;
    while !ready() && start.elapsed() < SPIN {
        if looks < LOOKS {
            looks += 1;
            // So seldom that looks do not take the cache line from the task that writes it.
            (0..8).for_each(|_| spin_loop());
        } else {
            // The system may have put the other task's thread on this processor.
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        time::{Duration, Instant},
    };

    use super::{Spin, look};

    fn after(intervals: &[u64]) -> Spin {
        let mut spin = Spin::default();
        let mut now = Instant::now();
        spin.passed(now);
        for interval in intervals {
            now += Duration::from_micros(*interval);
            spin.passed(now);
        }
        spin
    }

    #[test]
    fn a_wait_on_the_processor_ends_when_it_is_ready_or_has_lasted_long_enough() {
        let looks = Cell::new(0);
        look(|| {
            looks.set(looks.get() + 1);
            looks.get() == 3
        });
        assert_eq!(looks.get(), 3);
        look(|| false);
    }

    #[test]
    fn it_is_worth_it_while_batches_follow_closely() {
        assert!(!Spin::default().is_worth_it(), "nothing is known yet");
        assert!(after(&[20; 8]).is_worth_it());
        assert!(after(&[20, 20, 20, 20, 150]).is_worth_it(), "one long wait says little");
        assert!(!after(&[20, 20, 20, 20, 10_000, 20]).is_worth_it(), "there was a pause");
        assert!(!after(&[100; 20]).is_worth_it());
    }
}
