//! Memory that a component borrows from its flow.

use tremor_abi::host::HostHandle;

/// Unit in which memory is borrowed from the host, in bytes.
const BLOCK: usize = 64 << 10;

/// The memory of one buffer of a component, counted against the limit of the process (`tremor run --memory-limit`).
/// Made by [`Host::memory`](crate::Host::memory).
///
/// Bytes are borrowed in blocks of 64 KiB, so that most calls do not reach the host. Dropping the value returns all
/// of them.
pub struct Memory {
    host: HostHandle,
    /// Bytes that are in use.
    used: usize,
    /// Bytes that are borrowed: a multiple of [`BLOCK`].
    borrowed: usize,
}

impl Memory {
    pub(crate) fn new(host: HostHandle) -> Self {
        Self { host, used: 0, borrowed: 0 }
    }

    /// Counts `bytes` more. Returns `false`, and counts nothing, if the flow may not take them: a component that
    /// reads from peers then waits, or refuses the peer in the way that its protocol has.
    #[must_use]
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        if used > self.borrowed {
            let more = (used - self.borrowed).div_ceil(BLOCK).saturating_mul(BLOCK);
            if !self.host.memory_take(more) {
                return false;
            }
            self.borrowed += more;
        }
        self.used = used;
        true
    }

    /// Counts `bytes` less, at most what was counted. One block more than needed stays borrowed.
    pub fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        let needed = self.used.div_ceil(BLOCK) * BLOCK;
        if self.borrowed > needed + BLOCK {
            self.host.memory_return(self.borrowed - needed);
            self.borrowed = needed;
        }
    }

    /// Returns the number of bytes that are counted.
    pub fn used(&self) -> usize {
        self.used
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.borrowed > 0 {
            self.host.memory_return(self.borrowed);
        }
    }
}

shows!(Memory { used, borrowed });

#[cfg(test)]
mod tests {
    use super::BLOCK;
    use crate::testing::TestHost;

    #[test]
    fn memory_is_borrowed_in_blocks_up_to_the_limit() {
        let host = TestHost::new();
        host.set_memory_limit(3 * BLOCK);
        let (mut one, mut two) = (host.host().memory(), host.host().memory());
        assert!(one.try_grow(1) && one.try_grow(BLOCK - 1));
        assert_eq!(host.memory(), BLOCK);
        assert!(two.try_grow(BLOCK + 1));
        assert!(!one.try_grow(1), "three blocks are borrowed");
        assert_eq!((one.used(), host.memory()), (BLOCK, 3 * BLOCK));
        two.shrink(BLOCK + 1);
        assert_eq!(host.memory(), BLOCK, "two blocks are more than one to keep");
        assert!(one.try_grow(1));
        drop((one, two));
        assert_eq!(host.memory(), 0);
    }
}
