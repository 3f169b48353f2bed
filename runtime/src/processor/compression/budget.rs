//! What the decompressors of all streams may take of memory.

use tremor_pdk::{Error, Memory};

/// However little has come, a few bytes of it can ask for a window of many MiB. What has been read
/// of the streams pays for what they take beyond the limit: this many bytes for each.
const PAID: u64 = 32;

/// The memory of the streams of one preprocessor.
pub(super) struct Budget {
    /// What they may always take, in bytes.
    most: usize,
    taken: usize,
    read: u64,
    /// Number of streams that take something.
    streams: usize,
    /// Counts what is taken in the memory of the flow.
    memory: Memory,
}

/// One stream's part of it.
#[derive(Default)]
pub(super) struct Part {
    taken: usize,
    /// Compressed bytes so far.
    pub(super) read: u64,
}

impl Budget {
    pub(super) fn new(most: usize, memory: Memory) -> Self {
        Self { most, taken: 0, read: 0, streams: 0, memory }
    }

    /// So many more bytes of a stream have been read.
    pub(super) fn read(&mut self, part: &mut Part, bytes: usize) {
        part.read += bytes as u64;
        self.read += bytes as u64;
    }

    /// Counts `memory` bytes for a stream in place of what it took before.
    ///
    /// # Errors
    /// Streams take too much together, or the flow may take no more memory. The only stream is not refused memory
    /// of the flow: waiting for it would not help.
    pub(super) fn take(&mut self, part: &mut Part, memory: usize) -> Result<(), Error> {
        self.streams = self.streams + usize::from(memory > 0) - usize::from(part.taken > 0);
        self.taken = self.taken - part.taken + memory;
        part.taken = memory;
        let is_counted = self.memory.try_resize(self.taken);
        let paid = usize::try_from(self.read.saturating_mul(PAID)).unwrap_or(usize::MAX);
        if self.taken <= self.most.max(paid) {
            if is_counted || self.streams <= 1 {
                return Ok(());
            }
            return Err(Error::bad_data(
                "cannot decompress the stream: the flow has reached its memory limit; raise \
                 `--memory-limit`, or limit the number of connections",
            ));
        }
        Err(Error::bad_data(format_args!(
            "with this stream, decompression takes {} bytes of memory: raise `max_memory` if it may \
             take so many",
            self.taken
        )))
    }

    /// A stream has ended, or is lost.
    pub(super) fn give_back(&mut self, part: &Part) {
        self.taken -= part.taken;
        self.streams -= usize::from(part.taken > 0);
        self.read -= part.read;
        // Fewer bytes are never refused.
        _ = self.memory.try_resize(self.taken);
    }
}
