//! Which of two tasks takes a batch through: the source's that is about to pull it, or the sink's;
//! and how large one for the sink is.
//!
//! What is decided before the pull is decided without knowing what comes. But batches resemble one
//! another: a sink that made the source wait for the routes had too much to do, and one that had
//! nothing to do when the source was done with the next batch has too little.

use std::time::Duration;

use tremor_pdk::Limit;

use super::queue::Spent;

/// Batches in a row that a source takes through itself, at most, while its sink has enough to do.
const LONGEST_PAUSE: u32 = 31;
/// Batches in a row that are handed over, at most: the source's pace goes by its own.
const IN_A_ROW: u32 = 15;
/// How large a batch for the sink is, in parts of [`AS_LARGE`] of one that the source takes
/// through itself, at least and at most.
const SIZE: std::ops::RangeInclusive<u32> = 32..=160;
const AS_LARGE: u32 = 64;

/// When a source hands over.
#[derive(Debug, Default)]
pub(crate) enum Balance {
    /// Never.
    #[default]
    Never,
    /// So that both tasks have as much to do.
    Even(Even),
    /// As it is written here, and then never.
    #[cfg(test)]
    Scripted(std::collections::VecDeque<bool>),
}

/// What the even balance goes by.
#[derive(Debug)]
pub(crate) struct Even {
    /// How many batches the source takes through itself before it hands over again.
    left: u32,
    /// How many it was the last time.
    pause: u32,
    in_a_row: u32,
    /// Whether the last batch was handed over.
    handed: bool,
    size: u32,
}

impl Balance {
    /// Even, once the source knows what a batch takes.
    pub(crate) fn even() -> Self {
        Self::Even(Even { left: 1, pause: 0, in_a_row: 0, handed: false, size: AS_LARGE })
    }

    /// Whether the next batch is handed over, while so many wait in the sink's queue. Where the
    /// sink's task has no processor to itself, that would only take this one from it.
    pub(crate) fn hands_over(&mut self, queued: usize, has_processor: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Even(even) => has_processor && even.hands_over(queued),
            #[cfg(test)]
            Self::Scripted(decisions) => decisions.pop_front().unwrap_or(false),
        }
    }

    /// The limit of a batch that is handed over, where the source's own have `limit`.
    pub(crate) fn limit(&self, limit: Limit) -> Limit {
        let Self::Even(even) = self else { return limit };
        let events = (limit.events.saturating_mul(even.size) / AS_LARGE).max(1);
        Limit { events, ..limit }
    }

    /// Learns from a batch that the source took through itself in the time `took`.
    pub(crate) fn learn(&mut self, took: Duration, spent: Spent) {
        if let Self::Even(even) = self {
            even.learn(took, spent);
        }
    }
}

impl Even {
    fn hands_over(&mut self, queued: usize) -> bool {
        // One may wait, for the sink has it encoded and is soon done with it: to find the queue
        // empty every time, the sink would have to be idle every time.
        if self.left > 0 || queued > 1 || self.in_a_row >= IN_A_ROW {
            self.left = self.left.saturating_sub(1);
            return false;
        }
        self.left = self.pause;
        self.in_a_row += 1;
        self.handed = true;
        true
    }

    fn learn(&mut self, took: Duration, spent: Spent) {
        self.in_a_row = 0;
        if !std::mem::take(&mut self.handed) {
            return;
        }
        let is_late = spent.turn > took / 3;
        self.pause = if is_late { self.pause * 2 + 1 } else { self.pause / 2 }.min(LONGEST_PAUSE);
        self.left = self.pause;
        let size = if spent.turn > took / 16 {
            self.size - 1
        } else {
            self.size + u32::from(spent.found_idle)
        };
        self.size = size.clamp(*SIZE.start(), *SIZE.end());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tremor_pdk::Limit;

    use super::{Balance, IN_A_ROW, LONGEST_PAUSE, Spent};

    const TOOK: Duration = Duration::from_micros(30);

    /// What a source says that waited so long for the routes.
    fn waited(turn: Duration) -> Spent {
        Spent { turn, ..Spent::default() }
    }

    /// One that has handed over after so many batches that its source took through itself.
    fn after(own: u32, balance: &mut Balance) {
        for _ in 0..own {
            assert!(!balance.hands_over(0, true));
            balance.learn(TOOK, Spent::default());
        }
        assert!(balance.hands_over(0, true));
    }

    #[test]
    fn a_sink_that_has_little_to_do_gets_a_batch_as_soon_as_the_first_is_known() {
        assert!(!Balance::Never.hands_over(0, true));
        for (queued, expected) in [(0, true), (1, true), (2, false)] {
            let mut balance = Balance::even();
            assert!(!balance.hands_over(0, true), "nothing is known of a batch yet");
            balance.learn(TOOK, Spent::default());
            assert_eq!(balance.hands_over(queued, true), expected);
        }
    }

    #[test]
    fn a_task_without_a_processor_to_itself_gets_nothing() {
        let mut balance = Balance::even();
        assert!(!balance.hands_over(0, true));
        assert!(!balance.hands_over(0, false));
        assert!(balance.hands_over(0, true));
    }

    #[test]
    fn a_sink_that_keeps_the_source_waiting_gets_fewer_and_fewer() {
        let mut balance = Balance::even();
        after(1, &mut balance);
        for own in [1, 3, 7, 15, LONGEST_PAUSE, LONGEST_PAUSE] {
            balance.learn(TOOK, waited(TOOK / 2));
            after(own, &mut balance);
        }
        for own in [15, 7, 3, 1, 0, 0] {
            balance.learn(TOOK, waited(TOOK / 10));
            after(own, &mut balance);
        }
    }

    #[test]
    fn now_and_then_a_source_takes_one_through_to_know_what_that_takes() {
        let mut balance = Balance::even();
        assert!(!balance.hands_over(0, true));
        assert!((0..IN_A_ROW).all(|_| balance.hands_over(0, true)));
        assert!(!balance.hands_over(0, true));
        balance.learn(TOOK, Spent::default());
        assert!(balance.hands_over(0, true));
    }

    #[test]
    fn a_sink_that_is_found_idle_gets_larger_batches_and_one_that_is_late_smaller_ones() {
        let idle = Spent { found_idle: true, ..Spent::default() };
        let late = Spent { found_idle: true, ..waited(TOOK / 10) };
        for (spent, expected) in [(Spent::default(), 64), (idle, 160), (late, 32)] {
            let mut balance = Balance::even();
            assert!(!balance.hands_over(0, true));
            for _ in 0..200 {
                assert!(balance.hands_over(0, true));
                balance.learn(TOOK, spent);
            }
            let limit = balance.limit(Limit { events: 64, ..Limit::default() });
            assert_eq!(limit.events, expected);
        }
    }
}
