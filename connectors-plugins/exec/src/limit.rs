//! Limit of open descriptors for the started process.

use std::{os::unix::process::CommandExt, process::Command};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Makes `command` start with the soft limit `descriptors`. Under a high limit, programs that use
/// `select` fail with descriptors above 1023, and some programs take long to start because they
/// close every possible descriptor.
pub(crate) fn set(command: &mut Command, descriptors: u64) {
    let set = move || {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), ..limit })?;
        Ok(())
    };
    // SAFETY: between `fork` and `exec`, `set` only makes two system calls: it neither allocates nor takes a lock.
    unsafe { command.pre_exec(set) };
}
