//! Locks on files, which other instances and processes respect.

use std::{
    fs::{File, TryLockError},
    thread,
    time::{Duration, Instant},
};

/// Time for which a lock is retried. A child process that another thread is starting has a copy of
/// the lock until it executes its program.
const RETRIED: Duration = Duration::from_millis(100);

/// Locks a file exclusively. Blocks the thread for up to 100 ms.
///
/// # Errors
/// Returns an error if another process or instance has the lock, or if the file system does not support locks.
pub(crate) fn lock_file(file: &File) -> Result<(), TryLockError> {
    let begin = Instant::now();
    let mut locked = file.try_lock();
    while matches!(locked, Err(TryLockError::WouldBlock)) && begin.elapsed() < RETRIED {
        thread::sleep(Duration::from_millis(1));
        locked = file.try_lock();
    }
    locked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_that_is_released_soon_is_acquired() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = file.reopen().unwrap();
        other.try_lock().unwrap();
        assert!(matches!(lock_file(file.as_file()), Err(TryLockError::WouldBlock)));
        thread::scope(|scope| {
            let ours = scope.spawn(|| lock_file(file.as_file()));
            other.unlock().unwrap();
            ours.join().unwrap().unwrap();
        });
    }
}
