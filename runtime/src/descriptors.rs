//! How many files, sockets and the like the process may have open.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Soft limit that the process was started with, if it was raised.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the limit of open descriptors to the most that the system lets this process have: many flows need
/// more than the thousand that shells begin with. Where it cannot be raised, the flows may still do with what
/// there is.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without a limit, there is none to raise to.
    if limit.maximum.is_none() || limit.current == limit.maximum {
        return;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let (Ok(()), Some(inherited)) = (raised, limit.current) {
        INHERITED.get_or_init(|| inherited);
    }
    if let Err(error) = raised {
        let (may, could) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
        tracing::warn!(%error, may, could, "the limit of open descriptors cannot be raised");
    }
}

/// Returns the soft limit of open descriptors that the process was started with, or 0 if it is still in force.
pub(crate) fn inherited_limit() -> u64 {
    INHERITED.get().copied().unwrap_or_default()
}
