//! The memory that all connections of a connector may take together.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tremor_pdk::Memory;

/// Step in which the memory of the flow is taken, in bytes.
const STEP: usize = 64 << 10;

/// A limit for the bytes that connections buffer: messages received in part, and messages to be sent.
pub(crate) struct Budget {
    /// In bytes.
    limit: usize,
    /// In bytes; more than `limit` where accepted events had to be kept.
    used: AtomicUsize,
    /// Counts `used` in the memory of the flow; `None` without a flow.
    memory: Option<Mutex<Memory>>,
    /// `true` while the flow may take no more memory.
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

    /// Returns whether `more` bytes would stay within the limit, and the flow may take memory.
    pub(crate) fn has(&self, more: usize) -> bool {
        !self.is_short.load(Ordering::Relaxed)
            && self.used.load(Ordering::Relaxed).saturating_add(more) <= self.limit
    }

    /// Counts the bytes in the memory of the flow, if they differ by a step from what was counted before, or if that
    /// was refused.
    fn count(&self, before: usize, after: usize) {
        let is_due = before / STEP != after / STEP || self.is_short.load(Ordering::Relaxed);
        let Some(memory) = self.memory.as_ref().filter(|_| is_due) else { return };
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        // Others may have changed it meanwhile.
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

/// The bytes of one buffer, which are given back when the share is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
    /// Bytes of the last read.
    last_read: usize,
    /// `true` once a read failed because all connections together buffer too much.
    pub(super) is_over: bool,
}

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Self {
        Self { budget: budget.clone(), bytes: 0, last_read: 0, is_over: false }
    }

    /// Counts `bytes` instead of what was counted before. Returns whether all connections stay within the limit.
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

    /// Counts `more` bytes besides. Returns whether all connections stay within the limit.
    pub(crate) fn add(&mut self, more: usize) -> bool {
        self.set(self.bytes.saturating_add(more))
    }

    /// Counts `count` bytes that were read. Returns whether all connections stay within the limit.
    pub(super) fn read(&mut self, count: usize) -> bool {
        self.last_read = count;
        self.add(count)
    }

    /// Counts a message with `payload` bytes no more, because it is complete. The remaining bytes were read behind it,
    /// and all of them by the last read: fragments and long forms of a length have more headers than are subtracted.
    pub(super) fn complete(&mut self, payload: usize) {
        let left = self.bytes.saturating_sub(payload + header(payload));
        self.set(left.min(self.last_read));
    }

    /// Counts `less` bytes less.
    pub(crate) fn sub(&mut self, less: usize) {
        self.set(self.bytes.saturating_sub(less));
    }
}

/// Returns the length of the shortest header that a frame of a client has, in bytes.
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
