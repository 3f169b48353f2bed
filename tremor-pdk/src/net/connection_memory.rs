//! Counting of the memory that the open connections of a server need.

use crate::{Host, Memory};

/// Memory in bytes that must stay free after a new connection was counted. Otherwise clients that only connect could
/// use up the memory for the messages of other clients.
const RESERVE: usize = 1 << 20;

/// A counter of the memory that the connections of a server need regardless of the data that clients send, such as
/// tasks, state and fixed buffers. This memory counts against the memory limit of the flow.
/// [`Connections`](super::Connections) already contains such a counter.
///
/// Call [`reserve`](Self::reserve) before accepting a connection. If `reserve` returns `false`, stop accepting until a
/// connection is closed or some time has passed; clients wait in the listen backlog of the operating system.
#[derive(Debug)]
pub struct ConnectionMemory {
    memory: Memory,
    /// Memory of one connection, in bytes.
    each: usize,
    /// Number of open connections.
    open: usize,
    /// `true` if `memory` includes the next connection.
    has_next: bool,
}

impl ConnectionMemory {
    /// Creates a counter for connections that need `each` bytes each.
    pub fn new(host: &Host, each: usize) -> Self {
        Self { memory: host.memory(), each, open: 0, has_next: false }
    }

    /// Reserves memory for the next connection, unless that memory is already reserved. Returns `false` if the flow has
    /// no memory left.
    ///
    /// Always returns `true` if no connection is open, so that the server stays reachable.
    #[must_use]
    pub fn reserve(&mut self) -> bool {
        if !self.has_next {
            let is_counted = self.memory.try_grow(self.each.saturating_add(RESERVE));
            if is_counted {
                self.memory.shrink(RESERVE);
            }
            self.has_next = is_counted || self.open == 0;
        }
        self.has_next
    }

    /// Counts a connection that was accepted after [`reserve`](Self::reserve) returned `true`.
    pub fn opened(&mut self) {
        self.open += 1;
        self.has_next = false;
    }

    /// Subtracts the memory of a connection that was closed.
    pub fn closed(&mut self) {
        self.open = self.open.saturating_sub(1);
        let needed = (self.open + usize::from(self.has_next)).saturating_mul(self.each);
        self.memory.shrink(self.memory.used().saturating_sub(needed));
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::{ConnectionMemory, RESERVE};
    use crate::testing::TestHost;

    const EACH: usize = 100 << 10;

    #[test]
    fn connections_leave_reserve_and_return_their_memory() {
        let host = TestHost::new();
        host.set_memory_limit(RESERVE + 10 * EACH);
        let mut memory = ConnectionMemory::new(&host.host(), EACH);
        let mut count = 0;
        while memory.reserve() {
            memory.opened();
            count += 1;
        }
        assert!((9..=10).contains(&count), "{count}: blocks of 64 KiB are counted");
        assert!(host.memory() >= count * EACH && host.memory() <= 10 * EACH + (64 << 10));
        memory.closed();
        assert!(memory.reserve() && memory.reserve(), "the second call reserves nothing");
        memory.opened();
        assert!(!memory.reserve());
        (0..count).for_each(|_| memory.closed());
        assert!(host.memory() <= 64 << 10, "a block is kept");
        drop(memory);
        assert_eq!(host.memory(), 0);
    }

    #[test]
    fn single_connection_is_accepted_without_free_memory() {
        let host = TestHost::new();
        host.set_memory_limit(0);
        let mut memory = ConnectionMemory::new(&host.host(), EACH);
        for _ in 0..2 {
            assert!(memory.reserve());
            memory.opened();
            assert!(!memory.reserve());
            memory.closed();
        }
        assert_eq!(host.memory(), 0);
    }
}
