//! Adaptive size of reads from a peer.

/// Number of bytes to read from one peer at once.
///
/// The size is small for a peer that rarely sends data, so that its batches need little memory, and grows for a peer
/// that sends continuously.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadSize(u32);

/// Smallest size, in bytes.
const LEAST: u32 = 16 << 10;
/// Largest size, in bytes.
const MOST: u32 = 256 << 10;

impl Default for ReadSize {
    fn default() -> Self {
        Self(LEAST)
    }
}

impl ReadSize {
    /// Returns the number of bytes to read if the batch has capacity for `capacity` more; at least 1.
    pub(super) fn space(self, capacity: usize) -> usize {
        (self.0 as usize).min(capacity).max(1)
    }

    /// Adapts the size to a read of `count` bytes into a buffer of `space` bytes.
    pub(super) fn adjust(&mut self, count: usize, space: usize) {
        if count == space {
            self.0 = self.0.saturating_mul(4).min(MOST);
        } else if count < space / 4 {
            self.0 = (self.0 / 2).max(LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST, MOST, ReadSize};

    #[test]
    fn full_reads_grow_the_size_and_short_reads_shrink_it() {
        let mut read_size = ReadSize::default();
        let capacity = usize::MAX;
        for _ in 0..4 {
            let space = read_size.space(capacity);
            read_size.adjust(space, space);
        }
        assert_eq!(read_size.space(capacity), MOST as usize);
        assert_eq!((read_size.space(100), read_size.space(0)), (100, 1));
        for _ in 0..10 {
            read_size.adjust(1, read_size.space(capacity));
        }
        assert_eq!(read_size.space(capacity), LEAST as usize);
    }
}
