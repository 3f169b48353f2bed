//! Double of the product's `sync` modules: locks and atomics of the model checker, and the planted fault.

mod try_mutex;

use std::sync::{OnceLock, PoisonError};

pub(crate) use self::try_mutex::{TryMutex, TryMutexGuard};
pub(crate) use crate::rt::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use crate::rt::sync::{Arc, Condvar, Mutex, MutexGuard};

static PLANTED: OnceLock<String> = OnceLock::new();

/// Plants the fault `name` for the rest of the process.
pub(crate) fn plant(name: String) {
    PLANTED.set(name).expect("no other fault is planted");
}

/// Returns whether the fault `name` is planted.
///
/// # Panics
/// No model lists the fault.
pub(crate) fn fault(name: &str) -> bool {
    let Some(planted) = PLANTED.get() else {
        let is_known = crate::models().flat_map(|it| it.faults).any(|(known, _)| *known == name);
        assert!(is_known, "no model lists the fault `{name}`");
        return false;
    };
    planted == name
}

/// Locks a mutex, even if it is poisoned because a thread panicked while it had the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
