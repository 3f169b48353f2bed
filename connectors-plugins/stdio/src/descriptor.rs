//! How to read or write a file descriptor without blocking the thread.

use std::{fs::File, os::unix::fs::FileTypeExt};

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads and writes say when they would block.
    NonBlocking,
    /// They would block, but can be waited for.
    Polled,
    /// They cannot be waited for and take their time on another thread. Of regular files and the
    /// like, so no thread stays for long.
    Threaded,
}

/// What to read or write instead of `file`, and how.
///
/// Whether an open file blocks is a property of the open file itself and not of its descriptor:
/// made non-blocking, the terminal would be so for the shell that started us as well. So what can
/// be opened a second time is.
pub(crate) fn for_reading(file: File) -> (File, Access) {
    match reopen(&file, false) {
        Some(again) => (again, Access::NonBlocking),
        None if can_be_polled(&file) => (file, Access::Polled),
        None => (file, Access::Threaded),
    }
}

/// As [`for_reading`]. A write that blocks cannot be waited for: there is room when it begins, but
/// maybe not for all of it.
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

/// Opens a pipe or a terminal a second time, non-blocking. A regular file is left alone: opened a
/// second time it would be read and written from its start.
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

/// Where there is no way to open it a second time.
#[cfg(not(target_os = "linux"))]
fn reopen(_file: &File, _write: bool) -> Option<File> {
    None
}
