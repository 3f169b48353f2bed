//! The input: numbered lines that grow while the flow runs, in pieces that end anywhere.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// How many lines are there when the flow starts.
const BURST: usize = 400;
/// How many come at most between two looks.
const SOME: usize = 12;

pub(super) struct Feed {
    file: File,
    random: fastrand::Rng,
    /// Where each line ends, in bytes.
    ends: Vec<u64>,
    /// Of the last line, what is not written yet.
    rest: Vec<u8>,
}

impl Feed {
    pub(super) fn open(path: &Path, seed: u64) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self {
            file,
            random: fastrand::Rng::with_seed(!seed),
            ends: Vec::new(),
            rest: Vec::new(),
        })
    }

    pub(super) fn lines(&self) -> usize {
        self.ends.len()
    }

    /// How many lines lie before this position.
    pub(super) fn lines_before(&self, position: u64) -> usize {
        self.ends.partition_point(|&end| end <= position)
    }

    pub(super) fn burst(&mut self) -> Result<()> {
        self.add(BURST)
    }

    pub(super) fn some(&mut self) -> Result<()> {
        let lines = self.random.usize(0..=SOME);
        self.add(lines)
    }

    /// Writes what is left of the last line.
    pub(super) fn end_line(&mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.file.write_all(&rest).context("cannot write the input")
    }

    fn add(&mut self, lines: usize) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.rest);
        for _ in 0..lines {
            let number = self.ends.len();
            bytes.extend_from_slice(line(number).as_bytes());
            bytes.push(b'\n');
            let length = line(number).len() as u64 + 1;
            self.ends.push(self.ends.last().copied().unwrap_or(0) + length);
        }
        // A writer may stop in the middle of a line.
        let held_back = self.random.usize(0..=bytes.len().min(40));
        self.rest = bytes.split_off(bytes.len() - held_back);
        self.file.write_all(&bytes).context("cannot write the input")
    }
}

/// The line of this number: a part of one, or of two, is none.
pub(super) fn line(number: usize) -> String {
    let length = number.wrapping_mul(7_919) % 181;
    format!("{number} {} {number}", "x".repeat(length))
}

/// The number of a line.
pub(super) fn number(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.split(' ').next()?.parse().ok()?;
    (line(number) == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{line, number};

    #[test]
    fn a_part_of_a_line_is_none() {
        let text = line(1_234);
        assert_eq!(number(text.as_bytes()), Some(1_234));
        for length in 0..text.len() {
            assert_eq!(number(&text.as_bytes()[..length]), None, "{length} bytes");
            assert_eq!(number(&text.as_bytes()[text.len() - length..]), None, "the last {length}");
        }
        assert_eq!(number(format!("{}{}", line(1), line(2)).as_bytes()), None);
    }
}
