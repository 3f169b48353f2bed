//! What the decompressors of all streams may take of memory.

use tremor_pdk::Error;

/// However little has come, a few bytes of it can ask for a window of many MiB. What has been read
/// of the streams pays for what they take beyond the limit: this many bytes for each.
const PAID: u64 = 32;

/// The memory of the streams of one preprocessor.
pub(super) struct Budget {
    /// What they may always take, in bytes.
    most: usize,
    taken: usize,
    read: u64,
}

/// One stream's part of it.
#[derive(Default)]
pub(super) struct Part {
    taken: usize,
    /// Compressed bytes so far.
    pub(super) read: u64,
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: 0, read: 0 }
    }

    /// So many more bytes of a stream have been read.
    pub(super) fn read(&mut self, part: &mut Part, bytes: usize) {
        part.read += bytes as u64;
        self.read += bytes as u64;
    }

    /// A stream takes so much now.
    ///
    /// # Errors
    /// That is too much for all together.
    pub(super) fn take(&mut self, part: &mut Part, memory: usize) -> Result<(), Error> {
        self.taken = self.taken - part.taken + memory;
        part.taken = memory;
        let paid = usize::try_from(self.read.saturating_mul(PAID)).unwrap_or(usize::MAX);
        if self.taken <= self.most.max(paid) {
            return Ok(());
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
        self.read -= part.read;
    }
}
