//! Memory budget that all connections of a connector share.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tremor_pdk::{Memory, lock};

/// Step in bytes: the memory of the flow is updated when the number of used bytes enters another
/// multiple of this step.
const STEP: usize = 64 << 10;

/// A limit for the bytes that all connections together buffer: partially received messages, and
/// messages to be sent.
pub(crate) struct Budget {
    /// Limit in bytes.
    limit: usize,
    /// Number of buffered bytes. May exceed `limit`, because accepted events have to be kept.
    used: AtomicUsize,
    /// Adds `used` to the memory of the flow; `None` without a flow.
    memory: Option<Mutex<Memory>>,
    /// `true` while the flow has reached its memory limit.
    is_short: AtomicBool,
}

impl Budget {
    pub(crate) fn new(limit: usize, memory: Option<Memory>) -> Arc<Self> {
        let is_short = AtomicBool::new(false);
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            memory: memory.map(Mutex::new),
            is_short,
        })
    }

    /// Returns whether `more` bytes would stay within the limit, and the flow has memory.
    pub(crate) fn has(&self, more: usize) -> bool {
        !self.is_short.load(Ordering::Relaxed)
            && self.used.load(Ordering::Relaxed).saturating_add(more) <= self.limit
    }

    /// Updates the memory of the flow if `used` has entered another step, or if the flow refused
    /// the last update.
    fn count(&self, before: usize, after: usize) {
        let is_due = before / STEP != after / STEP || self.is_short.load(Ordering::Relaxed);
        let Some(memory) = self.memory.as_ref().filter(|_| is_due) else { return };
        let mut memory = lock(memory);
        // Read `used` again, because other connections may have changed it meanwhile.
        let (used, counted) = (self.used.load(Ordering::Relaxed), memory.used());
        memory.shrink(counted.saturating_sub(used));
        let is_within = memory.try_grow(used.saturating_sub(counted));
        self.is_short.store(!is_within, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("used", &self.used).finish_non_exhaustive()
    }
}

/// The bytes of one buffer of a connection. They are subtracted from the budget when the share is
/// dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
    /// Number of bytes of the last read.
    last_read: usize,
    /// `true` once a read failed because all connections together exceed the limit.
    pub(super) is_over: bool,
}

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Self {
        Self { budget: budget.clone(), bytes: 0, last_read: 0, is_over: false }
    }

    /// Sets the number of bytes of this share. Returns whether all connections together stay within
    /// the limit.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let used = &self.budget.used;
        if bytes > self.bytes {
            let before = used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.budget.count(before, before + bytes - self.bytes);
        } else if bytes < self.bytes {
            let before = used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.budget.count(before, before + bytes - self.bytes);
        }
        self.bytes = bytes;
        self.budget.has(0)
    }

    /// Adds `more` bytes. Returns whether all connections together stay within the limit.
    pub(crate) fn add(&mut self, more: usize) -> bool {
        self.set(self.bytes.saturating_add(more))
    }

    /// Adds `count` bytes that were read. Returns whether all connections together stay within the
    /// limit.
    pub(super) fn read(&mut self, count: usize) -> bool {
        self.last_read = count;
        self.add(count)
    }

    /// Subtracts a complete message of `payload` bytes and the shortest possible header. A
    /// fragmented message, or a length that is not in its shortest form, has longer headers.
    /// Therefore the remaining number of bytes is also limited to the length of the last read,
    /// because bytes that follow the message arrived with that read.
    pub(super) fn complete(&mut self, payload: usize) {
        let left = self.bytes.saturating_sub(payload + header(payload));
        self.set(left.min(self.last_read));
    }

    /// Subtracts `less` bytes.
    pub(crate) fn sub(&mut self, less: usize) {
        self.set(self.bytes.saturating_sub(less));
    }
}

/// Returns the length of the shortest frame header of a client, in bytes.
fn header(payload: usize) -> usize {
    match payload {
        0..126 => 6,
        126..=0xffff => 8,
        _ => 14,
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
