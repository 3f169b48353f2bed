//! What the flow has written, read as it grows.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::feed;

#[derive(Default)]
pub(super) struct Output {
    path: PathBuf,
    /// Up to where it was read: after a whole line.
    position: u64,
    /// Which lines are there, by their numbers.
    seen: Vec<bool>,
    newest: usize,
    /// Lines that are none of the input's.
    pub(super) torn: u64,
    /// Of this round.
    events: u64,
    again_bytes: u64,
}

impl Output {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), ..Self::default() }
    }

    /// The number after that of the last line that came for the first time.
    pub(super) fn newest(&self) -> usize {
        self.newest
    }

    /// Reads the lines that are whole by now. The last bytes may be a part of one, and go with the next
    /// start.
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
        if number >= self.seen.len() {
            self.seen.resize(number + 1, false);
        }
        if std::mem::replace(&mut self.seen[number], true) {
            self.again_bytes += line.len() as u64;
        }
        self.newest = self.newest.max(number + 1);
    }

    /// How many of the first lines of the input are not there.
    pub(super) fn missing(&self, lines: usize) -> usize {
        let there = self.seen.iter().take(lines).filter(|&&seen| seen).count();
        lines - there
    }

    /// How many lines this round has brought, and how many bytes of them were there before.
    pub(super) fn end_round(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.again_bytes))
    }

    /// Leaves a part of a line at the end, as a write does that is interrupted.
    pub(super) fn tear(&self, length: usize) -> Result<()> {
        let part = vec![b'?'; length];
        let file = File::options().append(true).create(true).open(&self.path);
        file.and_then(|mut file| file.write_all(&part)).context("cannot tear the output")
    }

    pub(super) fn expect_all(&self, lines: usize) -> Result<()> {
        let missing = self.missing(lines);
        ensure!(missing == 0, "{missing} of {lines} lines of the input are not in the output");
        let length = std::fs::metadata(&self.path).context("cannot read the output")?.len();
        let rest = length - self.position;
        ensure!(rest == 0, "the output ends in {rest} bytes that are no line");
        Ok(())
    }
}
