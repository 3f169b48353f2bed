//! The limit of open file descriptors of the process.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Soft limit with which the process was started. Set only if the limit was raised.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the limit of open descriptors to the maximum that the system permits, because many flows need more than
/// the usual default of 1024.
///
/// If the limit cannot be raised, a warning is logged, and the flows run with the current limit.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // The limit is infinite, or already at its maximum.
    if limit.maximum.is_none() || limit.current == limit.maximum {
        return;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let (Ok(()), Some(inherited)) = (raised, limit.current) {
        INHERITED.get_or_init(|| inherited);
    }
    if let Err(error) = raised {
        let (current, maximum) =
            (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
        tracing::warn!(%error, current, maximum, "cannot raise the limit of open descriptors");
    }
}

/// Returns the soft limit of open descriptors with which the process was started, or 0 if that limit still applies.
pub(crate) fn inherited_limit() -> u64 {
    INHERITED.get().copied().unwrap_or_default()
}
