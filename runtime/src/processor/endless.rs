//! A preprocessor for tests of what ends or bounds preprocessing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tremor_pdk::{Batch, Output, Preprocessor, Result};

/// A preprocessor that takes its input, puts nothing out, and always has more of it.
#[derive(Default)]
pub(crate) struct Endless {
    rounds: Arc<AtomicUsize>,
    has_begun: bool,
}

impl Endless {
    /// Makes a preprocessor that counts its calls in `rounds`.
    pub(crate) fn new(rounds: &Arc<AtomicUsize>) -> Self {
        Self { rounds: rounds.clone(), has_begun: false }
    }
}

impl Preprocessor for Endless {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        self.has_begun |= !batch.is_empty();
        batch.retain(|_| false);
        self.rounds.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn has_more(&self) -> bool {
        self.has_begun
    }

    fn holds(&self, _stream: u64) -> bool {
        self.has_begun
    }

    fn streams(&self) -> Vec<u64> {
        Vec::new()
    }
}
