//! The memory that the open connections of a server take.

use crate::{Host, Memory};

/// Memory of the flow that connections leave free, in bytes. Otherwise clients that only connect would take the memory
/// that the messages of other clients need.
const RESERVE: usize = 1 << 20;

/// The memory that the connections of a server take whatever their clients send, counted in the memory of the flow:
/// tasks, entries and fixed buffers. [`Connections`](super::Connections) has one of its own.
///
/// A server reserves memory for the next connection before it accepts that. If the flow has no memory for it, the server
/// accepts nothing until a connection is closed or some time has passed, and clients wait in the backlog of the system.
#[derive(Debug)]
pub struct ConnectionMemory {
    memory: Memory,
    /// Memory of a connection, in bytes.
    each: usize,
    /// Number of open connections.
    open: usize,
    /// `true` if `memory` has the next connection, too.
    has_next: bool,
}

impl ConnectionMemory {
    /// Returns the memory of connections that take `each` bytes.
    pub fn new(host: &Host, each: usize) -> Self {
        Self { memory: host.memory(), each, open: 0, has_next: false }
    }

    /// Reserves memory for the next connection, unless that was done before. Returns `false` if the flow does not have
    /// it. The only connection of a server needs no memory of the flow, so that a server is never out of reach.
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

    /// Returns the memory of a connection that was closed.
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
    fn only_connection_needs_no_memory() {
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
