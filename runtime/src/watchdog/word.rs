//! The words of records, side by side: the watchdog looks at those of thousands of tasks twenty times a second, and each that
//! lies somewhere else in memory takes it 75 ns.

use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicU64},
};

/// How many lie side by side.
const CHUNK: usize = 64;

/// A word on a cache line of its own: source and sink write theirs once a batch, on different cores.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The word of one record.
#[derive(Clone)]
pub(super) struct Word {
    chunk: Arc<[Line; CHUNK]>,
    at: usize,
}

impl Deref for Word {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.chunk[self.at].0
    }
}

/// Words that no record has.
#[derive(Default)]
pub(super) struct Words(Vec<Word>);

impl Words {
    /// One for a new record.
    pub(super) fn take(&mut self) -> Word {
        if self.0.is_empty() {
            let chunk = Arc::new(std::array::from_fn(|_| Line::default()));
            // The first one is taken first.
            self.0.extend((0..CHUNK).rev().map(|at| Word { chunk: chunk.clone(), at }));
        }
        self.0.pop().unwrap_or_else(|| unreachable!("there is a chunk of them"))
    }

    /// Takes back that of a record that is gone. The next one writes to it before anybody looks.
    pub(super) fn give(&mut self, word: Word) {
        self.0.push(word);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::atomic::Ordering};

    use super::{CHUNK, Words};

    #[test]
    fn each_record_has_a_word_of_its_own_and_another_one_has_it_after_that() {
        let mut words = Words::default();
        let taken: Vec<_> = (0..=CHUNK * 2).map(|_| words.take()).collect();
        let places: HashSet<_> = taken.iter().map(|word| &raw const **word).collect();
        assert_eq!(places.len(), taken.len());
        taken[5].store(7, Ordering::Relaxed);
        let free = words.0.len();
        taken.into_iter().for_each(|word| words.give(word));
        let again: Vec<_> = (0..=CHUNK * 2).map(|_| words.take()).collect();
        assert_eq!(words.0.len(), free);
        assert!(again.iter().all(|word| places.contains(&(&raw const **word))));
    }
}
