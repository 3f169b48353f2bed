//! Mutexes whose contents are good whatever has panicked meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also where a thread has panicked that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
