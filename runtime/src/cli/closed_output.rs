//! A standard output that was closed when the process started, as after `>&-` in a shell.
//!
//! Before `main`, the standard library opens `/dev/null` instead, so events would count as delivered although nobody
//! receives them.

use std::{
    io,
    os::fd::AsRawFd,
    sync::atomic::{AtomicBool, Ordering},
};

/// `true` if standard output was closed when the process started.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the C library calls the functions of this section before `main`, in any order. The function needs nothing that
// is initialised before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: the call only reads the flags of a descriptor, and fails if the descriptor is closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Replaces a standard output that was closed by a pipe without a reader, so that writes fail.
///
/// # Errors
/// The process has no file descriptor left.
pub(super) fn fail_writes() -> io::Result<()> {
    if !WAS_CLOSED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let (_, writer) = io::pipe()?;
    // SAFETY: both descriptors are open, and nothing else owns the descriptor of standard output.
    let result = unsafe { libc::dup2(writer.as_raw_fd(), libc::STDOUT_FILENO) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
