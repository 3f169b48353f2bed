//! The memory that all connections of a connector may take together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A limit for the bytes that connections buffer: messages received in part, and messages to be sent.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In bytes.
    limit: usize,
    /// In bytes; more than `limit` where accepted events had to be kept.
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// Returns whether `more` bytes would stay within the limit.
    pub(crate) fn has(&self, more: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(more) <= self.limit
    }
}

/// The bytes of one buffer, which are given back when the share is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Counts `bytes` instead of what was counted before. Returns whether all connections stay within the limit.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let used = &self.budget.used;
        if bytes >= self.bytes {
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        self.budget.has(0)
    }

    /// Counts `more` bytes besides. Returns whether all connections stay within the limit.
    pub(crate) fn add(&mut self, more: usize) -> bool {
        self.set(self.bytes.saturating_add(more))
    }

    /// Counts `less` bytes less.
    pub(crate) fn sub(&mut self, less: usize) {
        self.set(self.bytes.saturating_sub(less));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
