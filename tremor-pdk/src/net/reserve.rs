//! File descriptors that servers leave to the other components of the process.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    io::{Errno, fcntl_dupfd_cloexec},
    process::{Resource, getrlimit},
};

/// Part of the process's descriptors that no accepted connection may take.
const PART: u64 = 8;

/// Maximum number of descriptors in the reserve. Files, checkpoints and clients of other flows need tens of them.
const MAX: u64 = 256;

/// The check of one listener that a connection which is accepted now leaves the reserve alone.
///
/// The system gives out the lowest free descriptor, so the number of a new one is a lower bound of those in use.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// Number of the descriptor that was accepted last.
    last: AtomicU64,
}

impl Reserve {
    /// Checks that the next descriptor is not one of the reserve. Asks the system for one only if the last was close to
    /// the reserve.
    ///
    /// # Errors
    /// [`Errno::MFILE`], as if the process had no descriptor left.
    pub(super) fn check(&self, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
        let first_reserved = limit - (limit / PART).min(MAX);
        if self.last.load(Ordering::Relaxed) + 1 < first_reserved {
            return Ok(());
        }
        let next = number(&fcntl_dupfd_cloexec(listener, 0)?);
        if next >= first_reserved {
            return Err(Errno::MFILE);
        }
        self.last.store(next, Ordering::Relaxed);
        Ok(())
    }

    /// Records that `accepted` is the descriptor of a connection.
    pub(super) fn took(&self, accepted: &impl AsRawFd) {
        self.last.store(number(accepted), Ordering::Relaxed);
    }
}

fn number(descriptor: &impl AsRawFd) -> u64 {
    u64::try_from(descriptor.as_raw_fd()).unwrap_or_default()
}
