//! Support for formats whose libraries accept any part of the input: gzip, zstd, xz.

use tremor_pdk::Error;

use super::{
    Decode,
    buffer::{LimitedBuffer, corrupt, cut_off},
};

/// The result of a step.
pub(super) struct Step {
    /// Bytes of the input that were consumed.
    pub(super) taken: usize,
    /// `true` if a member ends after the consumed bytes.
    pub(super) ended: bool,
}

/// A library's decompressor.
pub(super) trait Steps: Send {
    /// Name of the format for users.
    const NAME: &'static str;

    /// Prepares the decompressor for a member, the first or a later one.
    fn begin(&mut self) -> Result<(), Error>;

    /// Consumes input and appends to the capacity of `out`, which does not grow.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error>;

    /// Returns the memory as [`Decode::memory`] does, after the member produced `produced` bytes.
    fn memory(&self, produced: usize) -> usize;
}

/// Decompresses members, one after the other.
pub(super) struct Members<S> {
    steps: S,
    within: bool,
    /// Bytes produced by the current or the last member.
    produced: usize,
}

impl<S: Steps> Members<S> {
    pub(super) fn new(steps: S) -> Self {
        Self { steps, within: false, produced: 0 }
    }
}

impl<S: Steps> Decode for Members<S> {
    fn push(&mut self, mut input: &[u8], out: &mut LimitedBuffer) -> Result<usize, Error> {
        let length = input.len();
        while !out.is_full() {
            if !self.within {
                // Tapes and disks pad data with zeros, and no member begins with a zero.
                let padding = input.iter().take_while(|byte| **byte == 0).count();
                input = &input[padding..];
                if input.is_empty() {
                    break;
                }
                self.steps.begin()?;
                (self.within, self.produced) = (true, 0);
            }
            let space = out.space();
            let before = space.len();
            let step = self.steps.step(input, space);
            let written = space.len() - before;
            self.produced = self.produced.saturating_add(written);
            let Step { taken, ended } = step?;
            input = input.get(taken..).unwrap_or_default();
            self.within = !ended;
            if ended {
                continue;
            }
            if input.is_empty() && !out.is_filled() {
                break;
            }
            if taken == 0 && written == 0 {
                return Err(corrupt(S::NAME, "it ends"));
            }
        }
        Ok(length - input.len())
    }

    fn memory(&self) -> usize {
        self.steps.memory(self.produced)
    }

    fn may_end(&self) -> bool {
        !self.within
    }

    fn end(&mut self, _out: &mut LimitedBuffer) -> Result<(), Error> {
        if std::mem::take(&mut self.within) { Err(cut_off(S::NAME)) } else { Ok(()) }
    }
}
