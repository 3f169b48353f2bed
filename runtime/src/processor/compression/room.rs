//! Where decompressed bytes go: as far as they may.

use tremor_pdk::Error;

/// Room that is made at once where nothing is known of what comes, in bytes.
const STEP: usize = 32 << 10;

/// Capacity that is kept for what comes next, in bytes.
pub(super) const KEPT: usize = 1 << 20;

/// A buffer that is full at some point. There may be a little more in it then.
#[derive(Default)]
pub(crate) struct Room {
    bytes: Vec<u8>,
    limit: usize,
}

impl Room {
    /// Empties it; it is full with `limit` bytes.
    pub(super) fn clear(&mut self, limit: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.limit = limit;
    }

    /// What is in it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is time to stop.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// The buffer, with some space at its end to fill.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < STEP / 8 {
            let left = self.limit.saturating_sub(self.bytes.len()).max(STEP / 8);
            self.bytes.reserve_exact(self.bytes.len().max(STEP).min(left));
        }
        &mut self.bytes
    }

    /// Whether no space is left at its end, so that there may be more to come.
    pub(super) fn is_filled(&self) -> bool {
        self.bytes.len() == self.bytes.capacity()
    }

    /// Appends as many of the bytes as there is room for; says how many.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.limit.saturating_sub(self.bytes.len()));
        self.append(&bytes[..count]);
        count
    }

    /// Appends bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cold]
pub(super) fn too_large(most: usize) -> Error {
    Error::bad_data(format_args!(
        "the decompressed message has more than {most} bytes: raise `max_bytes` if it may have more"
    ))
}

/// An error of a decompressor.
pub(super) fn corrupt(format: &str, error: impl std::fmt::Display) -> Error {
    Error::bad_data(format_args!("corrupt {format} data: {error}"))
}

/// The input ends where it must not.
pub(super) fn cut_off(format: &str) -> Error {
    Error::bad_data(format_args!("the {format} data was cut off: its end is missing"))
}
