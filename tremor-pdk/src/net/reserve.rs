//! File descriptors that servers leave to the other components of the process.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    io::{Errno, fcntl_dupfd_cloexec},
    process::{Resource, getrlimit},
};

/// Divisor of the descriptor limit of the process: accepted connections leave one of `PART` descriptors free.
const PART: u64 = 8;

/// Maximum number of descriptors in the reserve. Files, checkpoints and clients of other flows typically need a few
/// dozen.
const MAX: u64 = 256;

/// A check, for one listener, that the next accepted connection does not use the reserve.
///
/// The operating system assigns the lowest free number to a new descriptor, so at least as many descriptors as this
/// number are in use.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// The descriptor that was checked or accepted last.
    last: AtomicU64,
}

impl Reserve {
    /// Checks that the next descriptor is not part of the reserve. The check opens a descriptor only if the last
    /// descriptor was just below the reserve.
    ///
    /// # Errors
    /// Returns [`Errno::MFILE`], as if the process had no descriptor left.
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
