//! Counting of the memory of a component against the memory limit.

use tremor_abi::host::HostHandle;

/// Unit in which memory is borrowed from the host, in bytes.
const BLOCK: usize = 64 << 10;

/// A counter of the memory of one buffer of a component, against the memory limit (`tremor run --memory-limit`).
/// Created by [`Host::memory`](crate::Host::memory).
///
/// Call [`try_grow`](Self::try_grow) before the component reads input, which it can delay or reject. Call
/// [`grow`](Self::grow) for events that the component has already accepted.
///
/// The kit requests blocks of 64 KiB from the host, so that most calls do not call the host. Dropping the value returns
/// all blocks.
pub struct Memory {
    host: HostHandle,
    /// Bytes that the component has counted.
    used: usize,
    /// Bytes that [`Memory::try_grow`] has borrowed from the host: a multiple of [`BLOCK`].
    borrowed: usize,
    /// Bytes that [`Memory::grow`] has charged, even beyond the limit: a multiple of [`BLOCK`].
    charged: usize,
}

impl Memory {
    pub(crate) fn new(host: HostHandle) -> Self {
        Self { host, used: 0, borrowed: 0, charged: 0 }
    }

    /// Adds `bytes` to the counted bytes. Returns `false`, and adds nothing, if the flow may not use more memory.
    ///
    /// If the result is `false`, do not read from the peer for now, or reject the request as the protocol specifies.
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

    /// Sets the number of counted bytes. Returns `false`, and changes nothing, if the flow may not use the additional
    /// memory.
    #[must_use]
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        if bytes > self.used {
            return self.try_grow(bytes - self.used);
        }
        self.shrink(self.used - bytes);
        true
    }

    /// Adds `bytes` to the counted bytes, even beyond the limit. While the flow exceeds the limit, its sources are not
    /// pulled.
    ///
    /// Use this method for events that an operator or a sink buffers, because accepted events can neither wait nor be
    /// rejected.
    pub fn grow(&mut self, bytes: usize) {
        let used = self.used.saturating_add(bytes);
        let missing = self.missing(used);
        if missing > 0 {
            self.host.memory_charge(missing);
            self.charged = self.charged.saturating_add(missing);
        }
        self.used = used;
    }

    /// Sets the number of counted bytes, even beyond the limit, as [`grow`](Self::grow) does.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.used {
            return self.grow(bytes - self.used);
        }
        self.shrink(self.used - bytes);
    }

    /// Subtracts `bytes` from the counted bytes, down to 0. Up to one block that is no longer needed remains borrowed.
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

    /// Returns the number of additional bytes to request from the host for `used` bytes: a multiple of [`BLOCK`].
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
        assert_eq!(host.memory(), BLOCK, "one surplus block is kept, but not two");
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
        assert_eq!(host.memory(), 2 * BLOCK, "charged blocks are returned before borrowed blocks");
        assert!(!memory.try_grow(1) && memory.try_resize(0));
        assert_eq!(host.memory(), 0);
        memory.grow(1);
        drop(memory);
        assert_eq!(host.memory(), 0);
    }
}
