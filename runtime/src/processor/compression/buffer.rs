//! A buffer with a limit, for decompressed bytes.

use tremor_pdk::Error;

/// Bytes that are reserved at once if the size of the output is unknown.
const STEP: usize = 32 << 10;

/// Maximum capacity in bytes that is kept for the next output.
pub(super) const KEPT: usize = 1 << 20;

/// A buffer that counts as full from a limit on. It may contain slightly more.
#[derive(Default)]
pub(crate) struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: usize,
}

impl LimitedBuffer {
    /// Removes all bytes, and sets the number of bytes at which the buffer is full.
    pub(super) fn clear(&mut self, limit: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.limit = limit;
    }

    /// Returns the bytes in the buffer.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the allocated bytes.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns whether the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// Returns the buffer, with capacity at its end.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() - self.bytes.len() < STEP / 8 {
            let left = self.limit.saturating_sub(self.bytes.len()).max(STEP / 8);
            self.bytes.reserve_exact(self.bytes.len().max(STEP).min(left));
        }
        &mut self.bytes
    }

    /// Returns whether the capacity is used up, so that more output may follow.
    pub(super) fn is_filled(&self) -> bool {
        self.bytes.len() == self.bytes.capacity()
    }

    /// Appends `bytes` up to the limit. Returns the number of appended bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.limit.saturating_sub(self.bytes.len()));
        self.append(&bytes[..count]);
        count
    }

    /// Appends `bytes`, regardless of the limit.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cold]
pub(super) fn too_large(most: usize) -> Error {
    Error::bad_data(format_args!(
        "the decompressed message has more than {most} bytes: raise `max_bytes` to allow more"
    ))
}

/// Returns the error for data that a decompressor rejected.
pub(super) fn corrupt(format: &str, error: impl std::fmt::Display) -> Error {
    Error::bad_data(format_args!("corrupt {format} data: {error}"))
}

/// Returns the error for input that ends prematurely.
pub(super) fn cut_off(format: &str) -> Error {
    Error::bad_data(format_args!("the {format} data was cut off: its end is missing"))
}
