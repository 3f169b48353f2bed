//! Where decompressed bytes go: as far as they may.

use std::io;

use tremor_pdk::Error;

/// Room that is made at once where nothing is known of what comes, in bytes.
const STEP: usize = 32 << 10;

/// Capacity that is kept for what comes next, in bytes.
const KEPT: usize = 1 << 20;

/// A buffer with a limit.
pub(in crate::processor) struct Room {
    bytes: Vec<u8>,
    limit: usize,
}

impl Room {
    /// A buffer that has to be given a limit.
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), limit: 0 }
    }

    /// Empties it for what may have at most `limit` bytes.
    pub(super) fn clear(&mut self, limit: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.limit = limit;
    }

    /// What is in it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes it may have altogether.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The buffer, with some space behind what is in it; whoever fills that calls
    /// [`Room::check`] then.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < STEP / 8 {
            self.bytes.reserve(STEP);
        }
        &mut self.bytes
    }

    /// Whether no space is left, so that there may be more to come.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() == self.bytes.capacity()
    }

    /// Appends bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.admit(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Whether so many bytes more may come.
    pub(super) fn admit(&self, count: usize) -> Result<(), Error> {
        if count <= self.limit.saturating_sub(self.bytes.len()) {
            return Ok(());
        }
        Err(self.too_large())
    }

    /// Takes back what is beyond the limit.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if self.bytes.len() <= self.limit {
            return Ok(());
        }
        self.bytes.truncate(self.limit);
        Err(self.too_large())
    }

    #[cold]
    fn too_large(&self) -> Error {
        Error::bad_data(format_args!(
            "decompressed, it is larger than {} bytes: if it may be, raise `max_bytes`",
            self.limit
        ))
    }
}

/// An error of a decompressor that reads from what is in memory.
pub(super) fn corrupt(format: &str, error: &io::Error) -> Error {
    Error::bad_data(format_args!("corrupt {format} data: {error}"))
}
