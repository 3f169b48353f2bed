//! Detection of compressed files, and reading from them.

use std::{fs::File, io, sync::Arc};

use tremor_pdk::{ErrorKind, RawBatch};

use super::{Content, Input, ReadOptions, ReadOutcome};
use crate::{
    compression::{Detected, MAGIC_BYTES},
    tail::{
        identity::{Ending, first},
        packed::{Packed, Skipped},
    },
};

/// Returns the error of a file in the format `name`.
pub(in crate::tail) fn unsupported(name: &str) -> io::Error {
    let message = format!(
        "it is compressed with {name}, which is not supported; add it to `exclude`, or set `compression: none` \
         to read its bytes unchanged"
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl Input {
    /// Detects whether the file is compressed. `is_all` is set if the file does not grow.
    ///
    /// # Errors
    /// Kind `InvalidData` if the format is not supported.
    pub(super) fn detect(&mut self, options: &ReadOptions, is_all: bool) -> io::Result<()> {
        let file = self.open()?;
        let detected = if options.is_pattern {
            let start = first(&file, MAGIC_BYTES as u64)?;
            options.compression.detect(&self.path, &start, is_all)
        } else {
            options.compression.of(&self.path).map_or(Detected::Plain, Detected::Compressed)
        };
        self.content = match detected {
            Detected::Plain => Content::Plain,
            Detected::Unknown => Content::Unknown,
            Detected::Compressed(format) => {
                Content::Compressed(Packed::new(format, 0, Vec::new()).into())
            }
            Detected::Unsupported(name) => return Err(unsupported(name)),
        };
        Ok(())
    }

    /// Skips the first `position` bytes of the contents, because they were delivered when they were
    /// read from another file. `endings` are hashes of some of these bytes.
    pub(in crate::tail) fn continue_copy(&mut self, position: u64, endings: Vec<Ending>) {
        if let Content::Compressed(packed) = &mut self.content {
            **packed = packed.after(position, endings);
        } else {
            self.start_at(position);
            self.set_ending(endings.last().copied());
        }
    }

    /// Sets the position at which the stream starts.
    pub(in crate::tail) fn start_at(&mut self, position: u64) {
        self.start = position;
        self.rewind(position);
    }

    /// Sets the hash of the bytes before the start of the stream.
    fn set_ending(&mut self, ending: Option<Ending>) {
        self.start_ending = ending.filter(|ending| ending.position == self.start);
        self.ending = self.start_ending;
    }

    /// Continues with the state of the last run: `skip` bytes of a compressed file were delivered.
    pub(in crate::tail) fn restore(&mut self, skip: u64, ending: Option<Ending>) {
        match &mut self.content {
            Content::Compressed(packed) => {
                **packed = packed.after(skip, ending.into_iter().collect());
            }
            Content::Plain | Content::Unknown => self.set_ending(ending),
        }
    }

    /// Returns the number of decompressed bytes that are not delivered, and the hash of the bytes
    /// before that or before the start.
    pub(in crate::tail) fn skipped(&self) -> (u64, Option<Ending>) {
        match &self.content {
            Content::Compressed(packed) => (packed.skip, packed.ending()),
            Content::Plain | Content::Unknown => (0, self.start_ending),
        }
    }

    /// Returns whether an error is caused by the contents of the file, so that other files can be
    /// read.
    pub(in crate::tail) fn is_damaged(&self, error: &io::Error) -> bool {
        let is_compressed = matches!(self.content, Content::Compressed(_));
        let is_temporary = ErrorKind::of_shortage(error).is_some();
        !is_temporary && (is_compressed || error.kind() == io::ErrorKind::InvalidData)
    }

    /// Skips the remainder of the file. Aborts its stream if the flow has received a part of it; only
    /// then the batch has events, and the result is a position.
    pub(in crate::tail) fn give_up(&mut self, batch: &mut RawBatch) -> Option<u64> {
        let stream = self.stream;
        let has_begun = std::mem::take(&mut self.has_begun);
        (self.read, self.seen) = (self.length, self.length);
        self.end(batch);
        if has_begun {
            batch.stream(stream).abort();
        } else {
            self.start = self.read;
        }
        has_begun.then_some(self.read)
    }

    /// Decompresses more data into `batch`. The only positions of a compressed file are its start
    /// and its end.
    pub(super) fn decompress(
        &mut self,
        file: &Arc<File>,
        batch: &mut RawBatch,
        options: &ReadOptions,
        is_last: bool,
    ) -> io::Result<ReadOutcome> {
        // An incomplete file is decompressed again once it has changed.
        let may_grow = options.follow && !is_last;
        if may_grow && self.seen > self.start && self.length == self.seen {
            return Ok(ReadOutcome::Nothing);
        }
        let (stream, start, length) = (self.stream, self.start, self.length);
        let Content::Compressed(packed) = &mut self.content else {
            return Ok(ReadOutcome::Nothing);
        };
        packed.open(file, start)?;
        let skipped = packed.skip_some();
        if let Ok(Skipped::Differs) = skipped {
            let has_begun = self.has_begun;
            packed.deliver_all();
            return Ok(if has_begun { ReadOutcome::Truncated } else { ReadOutcome::Skipping });
        }
        let read = skipped.and_then(|skipped| match skipped {
            Skipped::All => packed.deliver(batch, stream, options.chunk_bytes).map(Some),
            Skipped::Some | Skipped::Differs => Ok(None),
        });
        match read {
            Ok(None) => Ok(ReadOutcome::Skipping),
            Ok(Some((count, true))) => {
                self.has_begun |= count > 0;
                self.read = start + packed.bytes_read();
                self.seen = length.max(self.read);
                let ended = self.end(batch);
                if ended.is_none() {
                    // Everything was delivered before: the next run need not decompress the file.
                    self.start = self.read;
                }
                Ok(ended.map_or(ReadOutcome::Nothing, ReadOutcome::Events))
            }
            Ok(Some((_, false))) => {
                self.has_begun = true;
                Ok(ReadOutcome::Events(start))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && may_grow => {
                packed.pause();
                self.seen = length;
                Ok(ReadOutcome::Incomplete)
            }
            Err(error) => Err(error),
        }
    }
}
