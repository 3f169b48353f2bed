//! The input: numbered lines that grow while the flow runs, in pieces that end anywhere.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// How many come at most between two looks.
const SOME: usize = 12;

pub(super) struct Feed {
    path: PathBuf,
    random: fastrand::Rng,
    /// The last one is written to; those before have other names by now.
    files: Vec<Input>,
    /// Of the last line, what is not written yet.
    rest: Vec<u8>,
}

struct Input {
    file: File,
    /// What the checkpoint knows it by.
    inode: u64,
    /// The number of its first line.
    first: usize,
    /// Where each line ends, in bytes.
    ends: Vec<u64>,
}

impl Feed {
    pub(super) fn open(path: &Path, seed: u64) -> Result<Self> {
        let input = Input::create(path, 0)?;
        let random = fastrand::Rng::with_seed(!seed);
        Ok(Self { path: path.to_owned(), random, files: vec![input], rest: Vec::new() })
    }

    pub(super) fn lines(&self) -> usize {
        self.files.last().map_or(0, Input::next)
    }

    /// How many lines are acknowledged, by the positions of files. A file without one was acknowledged as
    /// a whole if a later one has a position, and not at all otherwise.
    pub(super) fn acknowledged(&self, positions: &BTreeMap<u64, u64>) -> usize {
        let oldest = self.files.iter().find(|input| positions.contains_key(&input.inode));
        oldest.map_or(0, |input| {
            let position = positions[&input.inode];
            input.first + input.ends.partition_point(|&end| end <= position)
        })
    }

    /// Whether the file that is written to has a position.
    pub(super) fn is_known(&self, positions: &BTreeMap<u64, u64>) -> bool {
        self.files.last().is_some_and(|input| positions.contains_key(&input.inode))
    }

    pub(super) fn some(&mut self) -> Result<()> {
        let lines = self.random.usize(0..=SOME);
        self.add(lines)
    }

    /// Gives the file another name, and begins a new one.
    pub(super) fn rotate(&mut self) -> Result<()> {
        self.end_line()?;
        let aside = self.path.with_extension(self.files.len().to_string());
        fs::rename(&self.path, aside).context("cannot rename the input")?;
        self.files.push(Input::create(&self.path, self.lines())?);
        Ok(())
    }

    /// Writes what is left of the last line.
    pub(super) fn end_line(&mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.write(&rest)
    }

    /// Adds these many lines, or a part of the last.
    pub(super) fn add(&mut self, lines: usize) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.rest);
        for _ in 0..lines {
            let line = line(self.lines());
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            let Some(input) = self.files.last_mut() else { break };
            let before = input.ends.last().copied().unwrap_or(0);
            input.ends.push(before + line.len() as u64 + 1);
        }
        // A writer may stop in the middle of a line.
        let held_back = self.random.usize(0..=bytes.len().min(40));
        self.rest = bytes.split_off(bytes.len() - held_back);
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.files.last_mut().context("there is no input")?;
        file.file.write_all(bytes).context("cannot write the input")
    }
}

impl Input {
    fn create(path: &Path, first: usize) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        let inode = file.metadata()?.ino();
        Ok(Self { file, inode, first, ends: Vec::new() })
    }

    /// The number after that of its last line.
    fn next(&self) -> usize {
        self.first + self.ends.len()
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
