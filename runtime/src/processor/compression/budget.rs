//! Memory limit of the decompressors of all streams.

use tremor_pdk::{Error, Memory};

/// Bytes of memory that are allowed for each byte of input of the open streams, even if their sum exceeds the limit. A
/// few bytes of input can request a window of many MiB, so only streams with much input may exceed the limit together.
const PAID: u64 = 32;

/// The memory of the decompressors of one preprocessor.
pub(super) struct Budget {
    /// Bytes that the streams may always take.
    most: usize,
    taken: usize,
    /// Memory of the decompressor of whole messages, in bytes. No limit applies to this memory.
    message: usize,
    read: u64,
    /// Number of streams that take memory.
    streams: usize,
    /// Accounting of the memory in the flow.
    memory: Memory,
}

/// The part of the budget that a stream takes.
#[derive(Default)]
pub(super) struct Part {
    taken: usize,
    /// Compressed bytes read so far.
    pub(super) read: u64,
}

impl Budget {
    pub(super) fn new(most: usize, memory: Memory) -> Self {
        Self { most, taken: 0, message: 0, read: 0, streams: 0, memory }
    }

    /// Counts `bytes` more bytes read from a stream.
    pub(super) fn read(&mut self, part: &mut Part, bytes: usize) {
        part.read += bytes as u64;
        self.read += bytes as u64;
    }

    /// Sets the memory of a stream to `memory` bytes.
    ///
    /// # Errors
    /// Returns an error if the streams exceed the limit, or if the flow has reached its memory limit. A single stream
    /// may exceed the limit of the flow, because waiting would not free memory.
    pub(super) fn take(&mut self, part: &mut Part, memory: usize) -> Result<(), Error> {
        self.streams = self.streams + usize::from(memory > 0) - usize::from(part.taken > 0);
        self.taken = self.taken - part.taken + memory;
        part.taken = memory;
        let counted = self.taken + self.message;
        let is_counted = self.memory.try_resize(counted);
        let paid = usize::try_from(self.read.saturating_mul(PAID)).unwrap_or(usize::MAX);
        if self.taken <= self.most.max(paid) {
            if is_counted {
                return Ok(());
            }
            if self.streams <= 1 {
                self.memory.resize(counted);
                return Ok(());
            }
            return Err(Error::bad_data(
                "cannot decompress the stream: the flow has reached its memory limit; raise \
                 `--memory-limit`, or limit the number of connections",
            ));
        }
        Err(Error::bad_data(format_args!(
            "cannot decompress the stream: the streams would take {} bytes of memory; raise \
             `max_memory` to allow more",
            self.taken
        )))
    }

    /// Releases the memory of a stream that has ended or failed.
    pub(super) fn give_back(&mut self, part: &Part) {
        self.taken -= part.taken;
        self.streams -= usize::from(part.taken > 0);
        self.read -= part.read;
        self.memory.resize(self.taken + self.message);
    }

    /// Sets the memory that is kept between whole messages to `bytes`, even beyond the limits: a whole message was
    /// accepted already.
    pub(super) fn set_message(&mut self, bytes: usize) {
        self.message = bytes;
        self.memory.resize(self.taken + self.message);
    }
}
