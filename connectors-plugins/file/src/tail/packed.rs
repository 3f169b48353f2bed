//! The contents of a compressed file, and the part of them that was delivered before.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    sync::Arc,
};

use tremor_pdk::RawBatch;

use super::identity::{Ending, FIRST_BYTES};
use crate::compression::{Format, Input};

/// Maximum number of decompressed bytes that are skipped at once, so that other files are not
/// delayed by more than some milliseconds.
const STEP: u64 = 4 << 20;

/// A compressed file. The only positions of the file are its start and its end.
pub(super) struct Packed {
    format: Format,
    /// The decompressor; `None` before the first read and after the end.
    decoder: Option<Input>,
    /// Number of decompressed bytes at the start of the file that are skipped, because they were
    /// delivered before the file was compressed.
    pub(super) skip: u64,
    /// Hashes of bytes before positions up to `skip`, in the order of the positions. If the file has
    /// other bytes there, then it is not a copy of the file that was read.
    endings: Vec<Ending>,
    /// Decompressed position at which delivery begins: `skip`, or a later position if an incomplete
    /// file is decompressed again.
    deliver_from: u64,
    /// Decompressed position of the decompressor.
    pub(super) position: u64,
    /// Error that followed the bytes that were delivered last.
    error: Option<io::Error>,
    /// Decompressed bytes of the range of each of `endings`.
    last: Vec<Vec<u8>>,
}

/// Result of skipping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Skipped {
    /// The next byte is to be delivered.
    All,
    /// More bytes are left to skip.
    Some,
    /// The file does not have the contents to skip.
    Differs,
}

impl Packed {
    pub(super) fn new(format: Format, skip: u64, mut endings: Vec<Ending>) -> Self {
        endings.retain(|ending| ending.position <= skip);
        endings.sort_by_key(|ending| ending.position);
        Self {
            format,
            decoder: None,
            skip,
            endings,
            deliver_from: skip,
            position: 0,
            error: None,
            last: Vec::new(),
        }
    }

    /// Returns the hash of the bytes before `skip`, if known.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.endings.last().copied().filter(|ending| ending.position == self.skip)
    }

    /// Returns the same file, of which the first `skip` decompressed bytes are not delivered.
    pub(super) fn after(&self, skip: u64, endings: Vec<Ending>) -> Self {
        Self::new(self.format, skip, endings)
    }

    pub(super) fn is_open(&self) -> bool {
        self.decoder.is_some()
    }

    pub(super) fn close(&mut self) {
        self.decoder = None;
    }

    /// Makes the next read begin at the start of the file.
    pub(super) fn rewind(&mut self) {
        (self.decoder, self.deliver_from) = (None, self.skip);
    }

    /// Delivers the whole file, because the file is not a copy.
    pub(super) fn deliver_all(&mut self) {
        self.skip = 0;
        self.endings.clear();
        self.rewind();
    }

    /// Closes a file that ends within its compressed data. The next read begins at the start of the
    /// file, and skips what was delivered.
    pub(super) fn pause(&mut self) {
        (self.decoder, self.deliver_from) = (None, self.position.max(self.skip));
    }

    /// Returns the number of bytes that were read from the file since it was opened.
    pub(super) fn bytes_read(&self) -> u64 {
        self.decoder.as_ref().map_or(0, Input::position)
    }

    /// Opens the decompressor at position `start` of the file, if it is not open.
    pub(super) fn open(&mut self, file: &Arc<File>, start: u64) -> io::Result<()> {
        if self.decoder.is_none() {
            (&**file).seek(SeekFrom::Start(start))?;
            self.decoder = Some(Input::new(file.clone(), Some(self.format)));
            self.position = 0;
            self.error = None;
            self.last = vec![Vec::new(); self.endings.len()];
        }
        Ok(())
    }

    /// Skips bytes that were delivered before, at most [`STEP`].
    pub(super) fn skip_some(&mut self) -> io::Result<Skipped> {
        if self.position >= self.deliver_from {
            return Ok(Skipped::All);
        }
        let mut buffer = vec![0; 64 << 10];
        let end = self.deliver_from.min(self.position + STEP);
        while self.position < end {
            let space = usize::try_from(end - self.position).unwrap_or(usize::MAX);
            let space = space.min(buffer.len());
            let count = self.read(&mut buffer[..space])?;
            if count == 0 {
                return Ok(self.end_early());
            }
            self.keep_last(&buffer[..count], self.position - count as u64);
        }
        if self.position < self.deliver_from {
            return Ok(Skipped::Some);
        }
        Ok(if self.is_copy() == Some(false) { Skipped::Differs } else { Skipped::All })
    }

    /// Handles the end of a file that is shorter than what was read from the original. The original
    /// may have grown after it was copied, so the file is a copy if an earlier hash shows that.
    fn end_early(&mut self) -> Skipped {
        if self.deliver_from != self.skip || self.is_copy() != Some(true) {
            return Skipped::Differs;
        }
        (self.skip, self.deliver_from) = (self.position, self.position);
        self.endings.clear();
        Skipped::All
    }

    /// Returns whether the bytes before the last position with a known hash are those that were
    /// read; `None` if no hash is known.
    fn is_copy(&self) -> Option<bool> {
        let mut known = self.endings.iter().zip(&self.last);
        let last = known.rfind(|(ending, _)| ending.position <= self.position)?;
        Some(last.0.is_hash_of(last.1))
    }

    /// Keeps those of `bytes` that are in the range of one of `endings`.
    fn keep_last(&mut self, bytes: &[u8], position: u64) {
        let index = |at: u64| {
            let at = at.saturating_sub(position).min(bytes.len() as u64);
            usize::try_from(at).unwrap_or(bytes.len())
        };
        for (ending, last) in self.endings.iter().zip(&mut self.last) {
            let range = ending.range();
            last.extend_from_slice(&bytes[index(range.start)..index(range.end)]);
        }
    }

    /// Decompresses the next bytes to a stream of `batch`, at most `most`. Returns their number, and
    /// whether the file ends after them.
    pub(super) fn deliver(
        &mut self,
        batch: &mut RawBatch,
        stream: u64,
        most: usize,
    ) -> io::Result<(usize, bool)> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut total = 0;
        // Find the end of a short file in the same call, so that its pull is acknowledged together
        // with its end.
        while total < most {
            let mut stream = batch.stream(stream);
            match stream.read_fragment(most - total, |buffer| self.read(buffer)) {
                Ok(0) => return Ok((total, true)),
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        Ok((total, false))
    }

    /// Decompresses the next bytes. Returns 0 at the end of the file.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        loop {
            match decoder.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) => {
                    self.position += count as u64;
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the first decompressed bytes of a file, as many as the identity of a file includes.
pub(super) fn first_bytes(file: &Arc<File>, format: Format) -> io::Result<Vec<u8>> {
    (&**file).seek(SeekFrom::Start(0))?;
    let mut first = Vec::new();
    Input::new(file.clone(), Some(format)).take(FIRST_BYTES).read_to_end(&mut first)?;
    Ok(first)
}
