//! Formats whose libraries take any piece of input: gzip, zstd, xz.

use tremor_pdk::Error;

use super::{
    Decode,
    room::{Room, corrupt, cut_off},
};

/// How far a step went.
pub(super) struct Step {
    /// Bytes of the input that it took.
    pub(super) taken: usize,
    /// Whether a member ends after them.
    pub(super) ended: bool,
}

/// A library's decompressor.
pub(super) trait Steps: Send {
    /// What its users call it.
    const NAME: &'static str;

    /// Makes ready for a member, the first or another one.
    fn begin(&mut self) -> Result<(), Error>;

    /// Takes some input and appends to the space that `out` has; it does not make more.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Error>;

    /// As [`Decode::memory`], after so many bytes have come out of the member.
    fn memory(&self, produced: usize) -> usize;
}

/// Decompresses members, one after the other.
pub(super) struct Members<S> {
    steps: S,
    within: bool,
    /// Bytes that have come out of this member, or the last.
    produced: usize,
}

impl<S: Steps> Members<S> {
    pub(super) fn new(steps: S) -> Self {
        Self { steps, within: false, produced: 0 }
    }
}

impl<S: Steps> Decode for Members<S> {
    fn push(&mut self, mut input: &[u8], out: &mut Room) -> Result<usize, Error> {
        let length = input.len();
        while !out.is_full() {
            if !self.within {
                // Tapes and disks pad with zeros, and no member begins with one.
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

    fn end(&mut self, _out: &mut Room) -> Result<(), Error> {
        if std::mem::take(&mut self.within) { Err(cut_off(S::NAME)) } else { Ok(()) }
    }
}
