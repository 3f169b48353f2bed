//! A mutex with an atomic flag, because loom's mutex does not explore orders in which `try_lock` fails.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, TryLockError, TryLockResult},
};

use super::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct TryMutex<T> {
    is_locked: AtomicBool,
    /// The value. Only the thread that has set `is_locked` locks this mutex.
    value: Mutex<T>,
}

#[derive(Debug)]
pub(crate) struct TryMutexGuard<'m, T> {
    // Fields are dropped in this order, so the flag is reset after the mutex is unlocked.
    value: MutexGuard<'m, T>,
    _unlocks: Unlocks<'m>,
}

#[derive(Debug)]
struct Unlocks<'m>(&'m AtomicBool);

impl<T> TryMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: Mutex::new(value) }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<TryMutexGuard<'_, T>> {
        self.is_locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| TryLockError::WouldBlock)?;
        let value = self.value.try_lock().expect("only one thread sets `is_locked`");
        Ok(TryMutexGuard { value, _unlocks: Unlocks(&self.is_locked) })
    }
}

impl<T> Deref for TryMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TryMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl Drop for Unlocks<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
