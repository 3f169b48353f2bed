//! Access to a file descriptor without blocking the thread.

use std::{fs::File, os::unix::fs::FileTypeExt};

/// Way to access a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads and writes do not block, and report if they would.
    NonBlocking,
    /// Reads would block, but readiness can be awaited.
    Polled,
    /// Readiness cannot be awaited, so reads and writes run on another thread. The descriptor
    /// belongs to a regular file or similar, so reads and writes do not block that thread for long.
    Threaded,
}

/// Returns the file to use instead of `file`, and the way to access it.
///
/// The non-blocking mode is a property of the open file and not of the descriptor. If this process
/// made its terminal non-blocking, the terminal would also be non-blocking for the shell that
/// started the process. Therefore files are opened a second time if possible.
pub(crate) fn for_reading(file: File) -> (File, Access) {
    match reopen(&file, false) {
        Some(again) => (again, Access::NonBlocking),
        None if can_be_polled(&file) => (file, Access::Polled),
        None => (file, Access::Threaded),
    }
}

/// Returns the file to use instead of `file` for writing, like [`for_reading`]. A blocking
/// descriptor is not polled for writing, because even after readiness a write blocks if there is
/// not enough space for all its bytes.
pub(crate) fn for_writing(file: File) -> (File, Access) {
    match reopen(&file, true) {
        Some(again) => (again, Access::NonBlocking),
        None => (file, Access::Threaded),
    }
}

fn can_be_polled(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_socket() || kind.is_char_device()
    })
}

/// Opens a pipe or a terminal a second time, non-blocking. Returns `None` for a regular file, whose
/// second open file would start at position 0.
#[cfg(target_os = "linux")]
fn reopen(file: &File, write: bool) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;

    let kind = file.metadata().ok()?.file_type();
    if !kind.is_fifo() && !kind.is_char_device() {
        return None;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let access = if write { OFlags::WRONLY } else { OFlags::RDONLY };
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

/// Returns `None`, because other systems cannot open a file a second time.
#[cfg(not(target_os = "linux"))]
fn reopen(_file: &File, _write: bool) -> Option<File> {
    None
}
