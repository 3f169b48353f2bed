//! The age of the oldest event in a queue.

use std::{collections::VecDeque, time::Duration};

/// Least time between two marks, in ns. It is the precision of the age.
const BETWEEN: u64 = 1_000_000_000;

/// Maximum number of marks. If there are more, every second one is removed.
const MOST: usize = 4_096;

/// Times at which records became durable: of one record a second.
#[derive(Default)]
pub(super) struct Ages {
    /// Number of a record and the time in ns, in ascending order. All records from this number to the next one count as
    /// being as old.
    marks: VecDeque<(u64, u64)>,
}

impl Ages {
    /// Creates the times of a queue whose oldest record, if it has any, contains an event of this time.
    pub(super) fn new(oldest: Option<(u64, u64)>) -> Self {
        Self { marks: oldest.into_iter().collect() }
    }

    /// Records that the record `number` became durable.
    pub(super) fn add(&mut self, number: u64, now: u64) {
        if self.marks.back().is_some_and(|(_, last)| now.saturating_sub(*last) < BETWEEN) {
            return;
        }
        if self.marks.len() >= MOST {
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.marks.push_back((number, now));
    }

    /// Returns the age of the first record after `settled`. Call this only if there is one.
    pub(super) fn oldest(&mut self, settled: u64, now: u64) -> Option<Duration> {
        while self.marks.get(1).is_some_and(|(number, _)| *number <= settled + 1) {
            self.marks.pop_front();
        }
        let (_, at) = self.marks.front()?;
        Some(Duration::from_nanos(now.saturating_sub(*at)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Ages, BETWEEN, MOST};

    #[test]
    fn age_is_that_of_the_last_mark_before_the_record() {
        let mut ages = Ages::new(Some((3, 0)));
        ages.add(10, BETWEEN);
        ages.add(11, BETWEEN + 1);
        ages.add(20, 5 * BETWEEN);
        let mut age = |settled| ages.oldest(settled, 6 * BETWEEN).map(|it| it.as_secs());
        assert_eq!([2, 8, 9, 18, 19, 30].map(|it| age(it).unwrap()), [6, 6, 5, 5, 1, 1]);
    }

    #[test]
    fn marks_of_a_long_outage_are_bounded() {
        let mut ages = Ages::new(None);
        assert_eq!(ages.oldest(0, 1), None);
        (0..100_000).for_each(|at| ages.add(at, at * BETWEEN));
        assert!(ages.marks.len() <= MOST);
        assert_eq!(ages.oldest(0, 100_000 * BETWEEN), Some(Duration::from_secs(100_000)));
    }
}
