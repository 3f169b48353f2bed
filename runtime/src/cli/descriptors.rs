//! How many files, sockets and the like the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open descriptors to the most that the system lets this process have: many flows need
/// more than the thousand that shells begin with. Where it cannot be raised, the flows may still do with what
/// there is.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without a limit, there is none to raise to.
    if limit.maximum.is_none() || limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        let (may, could) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
        tracing::warn!(%error, may, could, "the limit of open descriptors cannot be raised");
    }
}
