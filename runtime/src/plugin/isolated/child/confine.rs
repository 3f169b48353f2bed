//! Limits of the process, and its descriptors.

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::process::{Resource, Rlimit, setrlimit};

/// Takes the socket and the shared memory, which are standard input and output, and puts files in their stead that the
/// plugin may use: standard input is empty, and standard output is standard error. Closes all other descriptors that
/// the process has inherited.
///
/// Call this before the process opens files or starts threads.
pub(super) fn take_descriptors() -> io::Result<(UnixStream, OwnedFd)> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let memory = io::stdout().as_fd().try_clone_to_owned()?;
    let empty = fs::File::open("/dev/null")?;
    let last = [&socket, &memory].map(AsRawFd::as_raw_fd).into_iter().max().unwrap_or_default();
    let last = last.max(empty.as_raw_fd());
    // SAFETY: the source descriptors are open. The standard library borrows the descriptors 0 and 1 only by number.
    let replaced = unsafe {
        libc::dup2(empty.as_raw_fd(), libc::STDIN_FILENO) >= 0
            && libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) >= 0
    };
    if !replaced {
        return Err(io::Error::last_os_error());
    }
    for descriptor in 3..=last {
        let is_own = [&socket, &memory].iter().any(|own| own.as_raw_fd() == descriptor)
            || empty.as_raw_fd() == descriptor;
        if !is_own {
            // SAFETY: nothing in this process owns the descriptor, because it was inherited. Closing fails without an
            // effect if it is not open.
            _ = unsafe { libc::close(descriptor) };
        }
    }
    let first = libc::c_uint::try_from(last).unwrap_or_default() + 1;
    // SAFETY: as above, for all descriptors after the last one of this process. Systems without the call ignore it.
    _ = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    Ok((socket.into(), memory))
}

/// Closes all descriptors other than standard input, output and error when the process becomes another program.
pub(super) fn close_at_exec() {
    // SAFETY: the call only sets a flag of the descriptors. Systems without the call or the flag change nothing.
    _ = unsafe {
        let (first, last) = (3 as libc::c_uint, libc::c_uint::MAX);
        libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC)
    };
}

/// Limits the memory of the process to `memory` bytes. The process leaves no core file, gains no privileges by starting
/// other programs, and is the first one that the system ends if it runs out of memory.
pub(super) fn limit(memory: u64) -> io::Result<()> {
    let limit = |maximum| Rlimit { current: Some(maximum), maximum: Some(maximum) };
    setrlimit(Resource::Core, limit(0))?;
    setrlimit(Resource::Data, limit(memory))?;
    // Without `/proc`, the system chooses by the use of memory.
    _ = fs::write("/proc/self/oom_score_adj", "1000");
    // SAFETY: the call only sets a flag of the process.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends the process. Runs no code that the plugin has registered for the end of the process.
pub(super) fn exit(status: i32) -> ! {
    // SAFETY: the call does not return, and runs no other code of the process.
    unsafe { libc::_exit(status) }
}
