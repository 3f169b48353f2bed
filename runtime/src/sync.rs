//! Locks, atomics and fault points of the concurrency protocols.
//!
//! This module exports types of the standard library. The model checks in `models` compile the same protocols with the
//! types of a model checker instead, and activate faults. A protocol that needs weak references or `self: Arc<Self>`
//! imports `std::sync::Arc` directly, because the checker's `Arc` supports neither.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
/// A mutex that is only locked with `try_lock`. `models` has a type of its own for such mutexes.
pub(crate) use std::sync::{Mutex as TryMutex, MutexGuard as TryMutexGuard};

pub(crate) use tremor_pdk::lock;

/// Returns whether the fault `name` is active, which is never the case outside of model checks.
#[inline]
pub(crate) const fn fault(_name: &str) -> bool {
    false
}
