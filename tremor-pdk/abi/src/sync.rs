//! Locks, atomics and fault points of the concurrency protocols. The model checks in `models` replace this module,
//! so that they can explore every order of operations and plant faults.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering, fence};

pub(crate) use crate::lock::lock;

/// Returns whether the fault `name` is planted. Always `false` outside of the model checks.
#[inline]
pub(crate) const fn fault(_name: &str) -> bool {
    false
}
