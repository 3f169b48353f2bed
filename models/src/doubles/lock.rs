//! A lock made of an atomic, as that of `std` is.

use std::{
    ops::{Deref, DerefMut},
    sync::{self, LockResult, PoisonError, TryLockError, TryLockResult},
};

use crate::rt::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

#[derive(Debug, Default)]
pub struct Mutex<T> {
    is_locked: AtomicBool,
    /// Locked by the thread that has set the other.
    value: sync::Mutex<T>,
}

#[derive(Debug)]
pub struct MutexGuard<'m, T> {
    /// None within `drop` only.
    value: Option<sync::MutexGuard<'m, T>>,
    is_locked: &'m AtomicBool,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: sync::Mutex::new(value) }
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let Self { is_locked, value } = self;
        is_locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| TryLockError::WouldBlock)?;
        let value = Some(value.try_lock().expect("it is not locked"));
        Ok(MutexGuard { value, is_locked })
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Err(PoisonError::new(poisoned.into_inner()));
                }
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is let go of")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until it is let go of")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.is_locked.store(false, Ordering::Release);
    }
}
