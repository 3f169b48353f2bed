//! Reading the records of a segment one after the other, across damage.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::layout::{BLOCK, align, is_zero};
use crate::record::{HEADER_LEN, header, is_intact};

/// Bytes that one read asks for, so that small records do not cost a read each.
const READ: u64 = 256 << 10;

/// A part of a file in memory.
struct Window {
    file: Arc<dyn DiskFile>,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns the bytes from `from` to `to`, or fewer if the file ends before. Reads ahead, but not beyond `limit`,
    /// because bytes beyond may be written meanwhile.
    fn get(&mut self, from: u64, to: u64, limit: u64) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if from < self.start || to > end {
            let len = (from + READ).max(to).min(limit.max(to)) - from;
            self.bytes.resize(len as usize, 0);
            let read = self.file.read_at(&mut self.bytes, from);
            if read.is_err() {
                // Otherwise the next call would find bytes here that were not read.
                self.bytes.clear();
            }
            let read = read?;
            self.bytes.truncate(read);
            self.bytes.shrink_to(2 * READ as usize);
            self.start = from;
        }
        let bytes = &self.bytes[(from - self.start) as usize..];
        Ok(&bytes[..bytes.len().min((to - from) as usize)])
    }
}

/// A step of a [`Walker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An intact record.
    Record { number: u64, offset: u64, len: u64 },
    /// Bytes between two records, or after the last one of a part whose end is known, that are neither a record nor
    /// padding.
    Damage { from: u64, to: u64 },
    /// The part from this offset to the limit contains no record.
    End { at: u64 },
}

/// Walks over the records of a segment, in order.
pub(crate) struct Walker {
    window: Window,
    epoch: u64,
    /// Offset of the next record, or of the padding before it.
    at: u64,
    /// Number of the previous record. Only records with a higher number are accepted.
    last: u64,
    /// Offset at which a commit is known to begin: everything before it was durable when it was written.
    commit: u64,
}

impl Walker {
    pub(crate) fn new(file: Arc<dyn DiskFile>, epoch: u64, at: u64, last: u64) -> Self {
        let window = Window { file, start: 0, bytes: Vec::new() };
        Self { window, epoch, at, last, commit: at }
    }

    /// Continues at `at`, after a record with number `last`.
    pub(crate) fn skip(&mut self, at: u64, last: u64) {
        self.at = at;
        self.last = self.last.max(last);
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the greatest offset at which a commit is known to begin.
    pub(crate) fn commit(&self) -> u64 {
        self.commit
    }

    /// Returns bytes of the segment, fewer than asked for if the file ends before.
    pub(crate) fn bytes(&mut self, from: u64, len: u64, limit: u64) -> io::Result<&[u8]> {
        self.window.get(from, from + len, limit)
    }

    /// Walks to the next record that lies before `limit`.
    pub(crate) fn next(&mut self, limit: u64) -> io::Result<Step> {
        let mut begins_commit = None;
        if self.record_at(self.at, limit)?.is_none() && !self.at.is_multiple_of(BLOCK) {
            let padded = align(self.at).min(limit);
            let at = self.at;
            if self.bytes(at, padded - at, limit)?.iter().all(|it| *it == 0) {
                begins_commit = Some(padded);
                self.at = padded;
            }
        }
        let start = self.at;
        let mut at = start;
        while at + HEADER_LEN as u64 <= limit {
            if let Some((number, len)) = self.record_at(at, limit)? {
                if at > start {
                    self.at = at;
                    // The commit that contains this record may have begun anywhere in the damaged part.
                    return Ok(Step::Damage { from: start, to: at });
                }
                if begins_commit == Some(at) {
                    self.commit = at;
                }
                self.at = at + len;
                self.last = number;
                return Ok(Step::Record { number, offset: at, len });
            }
            at = self.next_magic(at + 8, limit)?;
        }
        Ok(Step::End { at: start })
    }

    /// Returns the number of the record at the current offset.
    pub(crate) fn peek(&mut self, limit: u64) -> io::Result<Option<u64>> {
        Ok(self.record_at(self.at, limit)?.map(|it| it.0))
    }

    /// Returns the number and the length of an intact record at `at`.
    fn record_at(&mut self, at: u64, limit: u64) -> io::Result<Option<(u64, u64)>> {
        if at + HEADER_LEN as u64 > limit {
            return Ok(None);
        }
        let (epoch, last) = (self.epoch, self.last);
        let bytes = self.bytes(at, HEADER_LEN as u64, limit)?;
        let Some(found) = header(bytes, epoch, last, limit - at) else { return Ok(None) };
        let bytes = self.bytes(at, found.len, limit)?;
        let is_valid = bytes.len() as u64 == found.len && is_intact(bytes, epoch);
        Ok(is_valid.then_some((found.number, found.len)))
    }

    /// Returns the first multiple of 8 from `at` at which the magic of a record stands, or an offset near the limit.
    fn next_magic(&mut self, mut at: u64, limit: u64) -> io::Result<u64> {
        while at + HEADER_LEN as u64 <= limit {
            let bytes = self.bytes(at, READ.min(limit - at), limit)?;
            // Most of a segment that is not full is zeros.
            let mut blocks = bytes.chunks(BLOCK as usize).zip((at..).step_by(BLOCK as usize));
            let found = blocks.find_map(|(block, at)| {
                let words = || block.chunks_exact(8).position(|it| it.starts_with(b"TRB2"));
                let position = if is_zero(block) { None } else { words() };
                position.map(|it| at + it as u64 * 8)
            });
            if let Some(found) = found {
                return Ok(found);
            }
            if bytes.len() < 8 {
                break;
            }
            at += bytes.len() as u64 / 8 * 8;
        }
        Ok(limit)
    }
}
