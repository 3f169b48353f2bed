//! The limit of open descriptors of a process that is started.

use std::{os::unix::process::CommandExt, process::Command};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Starts `command` with the soft limit `descriptors`: programs that use `select` fail with descriptors above 1023,
/// and others close every number up to the limit when they start.
pub(crate) fn set(command: &mut Command, descriptors: u64) {
    let set = move || {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), ..limit })?;
        Ok(())
    };
    // SAFETY: between `fork` and `exec`, `set` only makes two system calls: it neither allocates nor takes a lock.
    unsafe { command.pre_exec(set) };
}
