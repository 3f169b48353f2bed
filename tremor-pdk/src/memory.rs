//! Memory that a component borrows from its flow.

use tremor_abi::host::HostHandle;

/// Unit in which memory is borrowed from the host, in bytes.
const BLOCK: usize = 64 << 10;

/// The memory of one buffer of a component, counted against the limit of the process (`tremor run --memory-limit`).
/// Made by [`Host::memory`](crate::Host::memory).
///
/// Memory for input that may wait or be refused is borrowed ([`try_grow`](Self::try_grow)). Memory of events that the
/// component has accepted is counted in any case ([`grow`](Self::grow)).
///
/// The host counts blocks of 64 KiB, so that most calls do not reach it. Dropping the value returns all of them.
pub struct Memory {
    host: HostHandle,
    /// Bytes that are in use.
    used: usize,
    /// Bytes that are borrowed: a multiple of [`BLOCK`].
    borrowed: usize,
    /// Bytes of accepted events: a multiple of [`BLOCK`].
    charged: usize,
}

impl Memory {
    pub(crate) fn new(host: HostHandle) -> Self {
        Self { host, used: 0, borrowed: 0, charged: 0 }
    }

    /// Counts `bytes` more. Returns `false`, and counts nothing, if the flow may not take them: a component that
    /// reads from peers then waits, or refuses the peer in the way that its protocol has.
    #[must_use]
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let missing = self.missing(used);
        if missing > 0 {
            if !self.host.memory_take(missing) {
                return false;
            }
            self.borrowed += missing;
        }
        self.used = used;
        true
    }

    /// Counts `bytes` in place of what was counted before. Returns `false`, and changes nothing, if the flow may not
    /// take the difference.
    #[must_use]
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        if bytes > self.used {
            return self.try_grow(bytes - self.used);
        }
        self.shrink(self.used - bytes);
        true
    }

    /// Counts `bytes` more, even if that exceeds the limit. While the flow exceeds it, the sources of the flow are not
    /// pulled.
    ///
    /// Use it for events that an operator or a sink holds: they were accepted, and can neither wait nor be refused.
    pub fn grow(&mut self, bytes: usize) {
        let used = self.used.saturating_add(bytes);
        let missing = self.missing(used);
        if missing > 0 {
            self.host.memory_charge(missing);
            self.charged = self.charged.saturating_add(missing);
        }
        self.used = used;
    }

    /// Counts `bytes` in place of what was counted before, as [`grow`](Self::grow) does.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.used {
            return self.grow(bytes - self.used);
        }
        self.shrink(self.used - bytes);
    }

    /// Counts `bytes` less, at most what was counted. One block more than needed stays counted by the host.
    pub fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        let needed = self.used.div_ceil(BLOCK).saturating_mul(BLOCK);
        let surplus = self.borrowed.saturating_add(self.charged).saturating_sub(needed);
        if surplus > BLOCK {
            let charged = surplus.min(self.charged);
            self.give_back(surplus - charged, charged);
        }
    }

    /// Returns the number of bytes that are counted.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns how many bytes the host has yet to count if `used` bytes are in use.
    fn missing(&self, used: usize) -> usize {
        let counted = self.borrowed.saturating_add(self.charged);
        used.saturating_sub(counted).div_ceil(BLOCK).saturating_mul(BLOCK)
    }

    fn give_back(&mut self, borrowed: usize, charged: usize) {
        if borrowed > 0 {
            self.host.memory_return(borrowed);
            self.borrowed -= borrowed;
        }
        if charged > 0 {
            self.host.memory_discharge(charged);
            self.charged -= charged;
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.give_back(self.borrowed, self.charged);
    }
}

shows!(Memory { used, borrowed, charged });

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

    #[test]
    fn accepted_events_are_counted_beyond_the_limit() {
        let host = TestHost::new();
        host.set_memory_limit(2 * BLOCK);
        let mut memory = host.host().memory();
        assert!(memory.try_resize(2 * BLOCK) && !memory.try_resize(2 * BLOCK + 1));
        memory.grow(3 * BLOCK);
        assert_eq!((memory.used(), host.memory()), (5 * BLOCK, 5 * BLOCK));
        memory.shrink(3 * BLOCK);
        assert_eq!(host.memory(), 2 * BLOCK, "events are returned before loans");
        assert!(!memory.try_grow(1) && memory.try_resize(0));
        assert_eq!(host.memory(), 0);
        memory.grow(1);
        drop(memory);
        assert_eq!(host.memory(), 0);
    }
}
