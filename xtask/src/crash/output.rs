//! The output of the flow, read while it grows.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::{collections::HashSet, fs::File};

use anyhow::{Context, Result, ensure};

use super::feed;

#[derive(Default)]
pub(super) struct Output {
    path: PathBuf,
    /// Number of bytes that were read, up to the end of a whole line.
    position: u64,
    /// Numbers of the lines that the output contains.
    seen: HashSet<usize>,
    /// Maximum number of a line, plus one.
    pub(super) newest: usize,
    /// Number of lines of the output that the input does not contain.
    pub(super) torn: u64,
    /// Number of lines of this round.
    events: u64,
    /// Bytes of lines of this round that the output already had.
    again_bytes: u64,
}

impl Output {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    /// Reads the new whole lines. Bytes after the last whole line may be a part of a line, which the next start cuts
    /// off.
    pub(super) fn read(&mut self) -> Result<()> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.context("cannot read the output")?,
        };
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        self.position += whole as u64;
        bytes[..whole].split_inclusive(|&byte| byte == b'\n').for_each(|line| self.take(line));
        Ok(())
    }

    fn take(&mut self, line: &[u8]) {
        self.events += 1;
        let Some(number) = feed::number(&line[..line.len() - 1]) else {
            self.torn += 1;
            return;
        };
        if !self.seen.insert(number) {
            self.again_bytes += line.len() as u64;
        }
        self.newest = self.newest.max(number + 1);
    }

    /// Returns how many of the first `lines` lines of the input the output does not have.
    pub(super) fn missing(&self, lines: usize) -> usize {
        (0..lines).filter(|line| !self.seen.contains(line)).count()
    }

    /// Ends a round, and returns the number of its lines, and the bytes of those that the output already had.
    pub(super) fn end_round(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.again_bytes))
    }

    /// Appends `length` bytes without a line feed, as an interrupted write does.
    pub(super) fn tear(&self, length: usize) -> Result<()> {
        let part = vec![b'?'; length];
        let file = File::options().append(true).create(true).open(&self.path);
        file.and_then(|mut file| file.write_all(&part))
            .context("cannot append a partial line to the output")
    }

    /// Checks that the output has the first `lines` lines of the input, and ends with a whole line.
    pub(super) fn expect_all(&self, lines: usize) -> Result<()> {
        let missing = self.missing(lines);
        ensure!(missing == 0, "{missing} of {lines} lines of the input are not in the output");
        let length = std::fs::metadata(&self.path).context("cannot read the output")?.len();
        let remainder = length - self.position;
        ensure!(remainder == 0, "the output ends in {remainder} bytes that are not a line");
        Ok(())
    }
}
