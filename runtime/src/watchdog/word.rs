//! Words of records in contiguous memory, each with the thread that wrote it.
//!
//! The watchdog reads the words of thousands of tasks twenty times a second. Reading each word at an arbitrary address
//! would take 75 ns.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use super::waits;

/// Number of words in a chunk.
const CHUNK: usize = 64;

/// A word on a cache line of its own, because a source and a sink write their words once a batch, on different cores.
#[derive(Default)]
#[repr(align(128))]
struct Line {
    word: AtomicU64,
    /// Number of the thread that made the last call.
    thread: AtomicU32,
}

/// Word of a record.
#[derive(Clone)]
pub(super) struct Word {
    chunk: Arc<[Line; CHUNK]>,
    at: usize,
}

impl Word {
    /// Records that this thread makes a call.
    pub(super) fn enter(&self) {
        self.chunk[self.at].thread.store(waits::own_thread(), Ordering::Relaxed);
    }

    /// Returns the number of the thread that made the last call.
    pub(super) fn thread(&self) -> u32 {
        self.chunk[self.at].thread.load(Ordering::Relaxed)
    }
}

impl Deref for Word {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.chunk[self.at].word
    }
}

/// Unused words.
#[derive(Default)]
pub(super) struct Words(Vec<Word>);

impl Words {
    /// Returns a word for a new record.
    pub(super) fn take(&mut self) -> Word {
        if self.0.is_empty() {
            let chunk = Arc::new(std::array::from_fn(|_| Line::default()));
            // Words are handed out from the end, so the first word of the chunk has to be the last one here.
            self.0.extend((0..CHUNK).rev().map(|at| Word { chunk: chunk.clone(), at }));
        }
        self.0.pop().unwrap_or_else(|| unreachable!("a chunk of words was added"))
    }

    /// Returns the word of a record that has ended. The next record overwrites it before the watchdog reads it.
    pub(super) fn give(&mut self, word: Word) {
        self.0.push(word);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, sync::atomic::Ordering};

    use super::{CHUNK, Words};

    #[test]
    fn words_are_unique_and_reused() {
        let mut words = Words::default();
        let taken: Vec<_> = (0..=CHUNK * 2).map(|_| words.take()).collect();
        let addresses: HashSet<_> = taken.iter().map(|word| &raw const **word).collect();
        assert_eq!(addresses.len(), taken.len());
        taken[5].store(7, Ordering::Relaxed);
        let free = words.0.len();
        taken.into_iter().for_each(|word| words.give(word));
        let again: Vec<_> = (0..=CHUNK * 2).map(|_| words.take()).collect();
        assert_eq!(words.0.len(), free);
        assert!(again.iter().all(|word| addresses.contains(&(&raw const **word))));
    }
}
