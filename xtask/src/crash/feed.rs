//! The input: a file of numbered lines that grows while the flow runs, in pieces that may end within a line.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, io::Write, os::unix::fs::MetadataExt};

use anyhow::{Context, Result};

/// Maximum number of lines that are added between two checks of the output.
const SOME: usize = 12;

pub(super) struct Feed {
    path: PathBuf,
    random: fastrand::Rng,
    /// The files of the input. Only the last one is written; earlier files have been renamed.
    files: Vec<Input>,
    /// Bytes of the last lines that have not been written yet.
    unwritten: Vec<u8>,
}

struct Input {
    file: File,
    /// Identifies the file in the checkpoint.
    inode: u64,
    /// Number of the first line of the file.
    first: usize,
    /// Offset of the end of each line, in bytes.
    ends: Vec<u64>,
}

impl Feed {
    pub(super) fn open(path: &Path, seed: u64) -> Result<Self> {
        let input = Input::create(path, 0)?;
        let random = fastrand::Rng::with_seed(!seed);
        Ok(Self { path: path.to_owned(), random, files: vec![input], unwritten: Vec::new() })
    }

    pub(super) fn lines(&self) -> usize {
        self.files.last().map_or(0, Input::next)
    }

    /// Returns the number of acknowledged lines for these positions of files in the checkpoint. A file without a
    /// position was acknowledged as a whole if a later file has a position, and otherwise not at all.
    pub(super) fn acknowledged(&self, positions: &BTreeMap<u64, u64>) -> usize {
        let oldest = self.files.iter().find(|input| positions.contains_key(&input.inode));
        oldest.map_or(0, |input| {
            let position = positions[&input.inode];
            input.first + input.ends.partition_point(|&end| end <= position)
        })
    }

    /// Returns whether the checkpoint has a position of the file that is being written.
    pub(super) fn is_known(&self, positions: &BTreeMap<u64, u64>) -> bool {
        self.files.last().is_some_and(|input| positions.contains_key(&input.inode))
    }

    /// Adds a random number of lines.
    pub(super) fn add_some(&mut self) -> Result<()> {
        let lines = self.random.usize(0..=SOME);
        self.add(lines)
    }

    /// Renames the file, and creates a new one.
    pub(super) fn rotate(&mut self) -> Result<()> {
        self.end_line()?;
        let aside = self.path.with_extension(self.files.len().to_string());
        fs::rename(&self.path, aside).context("cannot rename the input")?;
        self.files.push(Input::create(&self.path, self.lines())?);
        Ok(())
    }

    /// Writes the remainder of the last line.
    pub(super) fn end_line(&mut self) -> Result<()> {
        let unwritten = std::mem::take(&mut self.unwritten);
        self.write(&unwritten)
    }

    /// Adds this number of lines. The end of the last lines may be written later.
    pub(super) fn add(&mut self, lines: usize) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.unwritten);
        for _ in 0..lines {
            let line = line(self.lines());
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            let Some(input) = self.files.last_mut() else { break };
            let before = input.ends.last().copied().unwrap_or(0);
            input.ends.push(before + line.len() as u64 + 1);
        }
        // A writer may stop in the middle of a line.
        let later = self.random.usize(0..=bytes.len().min(40));
        self.unwritten = bytes.split_off(bytes.len() - later);
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.files.last_mut().context("there is no input")?;
        file.file.write_all(bytes).context("cannot write the input")
    }
}

impl Input {
    fn create(path: &Path, first: usize) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        let inode = file.metadata()?.ino();
        Ok(Self { file, inode, first, ends: Vec::new() })
    }

    /// Returns the number of the line after the last one.
    fn next(&self) -> usize {
        self.first + self.ends.len()
    }
}

/// Returns the line with this number. A part of a line, or parts of two lines together, never equal a line.
pub(super) fn line(number: usize) -> String {
    let length = number.wrapping_mul(7_919) % 181;
    format!("{number} {} {number}", "x".repeat(length))
}

/// Returns the number of a line; `None` if the text is not a whole line of the input.
pub(super) fn number(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.split(' ').next()?.parse().ok()?;
    (line(number) == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{line, number};

    #[test]
    fn part_of_a_line_has_no_number() {
        let text = line(1_234);
        assert_eq!(number(text.as_bytes()), Some(1_234));
        for length in 0..text.len() {
            assert_eq!(number(&text.as_bytes()[..length]), None, "{length} bytes");
            assert_eq!(number(&text.as_bytes()[text.len() - length..]), None, "the last {length}");
        }
        assert_eq!(number(format!("{}{}", line(1), line(2)).as_bytes()), None);
    }
}
