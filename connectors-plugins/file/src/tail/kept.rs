//! What is acknowledged, and where and when that is kept.

use tremor_pdk::{Result, Watermarks};

use super::{
    checkpoint::{Checkpoint, Entry},
    clock::nanoseconds,
};
use crate::Config;

/// How far the files are acknowledged.
pub(super) struct Kept {
    pub(super) marks: Watermarks<u64>,
    checkpoint: Checkpoint,
    interval_ns: u64,
    next_at_ns: u64,
    /// After so many pulls it is kept in any case.
    most_pulls: u64,
    pulls: u64,
}

impl Kept {
    /// What the last run has kept, and how far each file was acknowledged then.
    pub(super) fn open(config: &Config) -> Result<Option<(Self, Vec<Entry>)>> {
        let Some(path) = &config.checkpoint else { return Ok(None) };
        let (checkpoint, entries) = Checkpoint::open(path)?;
        // One half waits for acknowledgements, the other one is acknowledged and not kept yet.
        let half = (config.read_ahead.get() / 2).max(1);
        let kept = Self {
            marks: Watermarks::new().at_most(usize::try_from(half).unwrap_or(usize::MAX)),
            checkpoint,
            interval_ns: nanoseconds(config.checkpoint_interval.get()),
            next_at_ns: 0,
            most_pulls: half,
            pulls: 0,
        };
        Ok(Some((kept, entries)))
    }

    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.pulls >= self.most_pulls || now_ns >= self.next_at_ns
    }

    pub(super) fn keep_soon(&mut self) {
        self.next_at_ns = 0;
    }

    pub(super) fn brought(&mut self, pull: u64, stream: u64, position: u64) {
        self.pulls += 1;
        self.marks.brought(pull, stream, position);
    }

    pub(super) fn save(&mut self, entries: Vec<Entry>, now_ns: u64) -> Result<()> {
        self.checkpoint.save(entries)?;
        self.next_at_ns = now_ns.saturating_add(self.interval_ns);
        self.pulls = 0;
        Ok(())
    }
}
