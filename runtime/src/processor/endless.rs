//! A preprocessor for tests of the end and the limits of preprocessing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tremor_pdk::{Batch, Output, Preprocessor, Result};

/// A preprocessor that consumes its input, emits nothing, and always reports more input.
#[derive(Default)]
pub(crate) struct Endless {
    rounds: Arc<AtomicUsize>,
    has_begun: bool,
}

impl Endless {
    /// Creates a preprocessor that counts its calls in `rounds`.
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

    fn buffers(&self, _stream: u64) -> bool {
        self.has_begun
    }

    fn streams(&self) -> Vec<u64> {
        Vec::new()
    }
}
