//! Detection of plugins that end the process with a function such as `std::process::exit`.
//!
//! Without it, `exit(0)` in a plugin would look like success, although events in flight are lost.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tremor_runtime::run;

use super::{failure::Reason, logging, stderr};

/// Maximum wait until stderr has accepted the message.
const LAST: Duration = Duration::from_secs(1);

/// `true` once `main` has returned.
static HAS_RETURNED: AtomicBool = AtomicBool::new(false);

/// Fails the process if it ends before [`returns`] is called.
pub(crate) fn watch() {
    // SAFETY: the function stays valid, because it belongs to the program and not to a library. It does not unwind.
    // If the C library has no space for the function, it is not called, as before.
    _ = unsafe { libc::atexit(at_exit) };
}

/// Returns `status` and declares that `main` is about to return it.
pub(crate) fn returns(status: ExitCode) -> ExitCode {
    HAS_RETURNED.store(true, Ordering::Relaxed);
    status
}

extern "C" fn at_exit() {
    if HAS_RETURNED.load(Ordering::Relaxed) {
        return;
    }
    let calls = run::calls_in_progress();
    let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(", ") };
    logging::error(&format!(
        "a plugin has ended the process with a function such as `exit`, so events in flight are lost; a plugin has to \
         return an error, or to call `Host::request_stop`; calls into plugins that were in progress: {calls}"
    ));
    stderr::flush(LAST);
    // SAFETY: the call does not return, and runs no other code of the process.
    unsafe { libc::_exit(Reason::Failed.status().into()) }
}
