//! Contents of files that no longer have them, and files that may be copies.

use std::{collections::HashMap, path::PathBuf, time::SystemTime};

use super::{
    checkpoint::Entry,
    identity::{Ending, FileId},
    open::Open,
    results::{Found, Stamp},
};

/// Contents that were read from a file that no longer has them: it was truncated, replaced or
/// deleted. A copy of the file continues the contents.
pub(super) struct Predecessor {
    /// Stream of the contents, if a stream of this run has read them.
    pub(super) stream: Option<u64>,
    /// The file, with the position at which its stream started.
    pub(super) entry: Entry,
    /// Position up to which the file was read, and the hash of the bytes before this position.
    pub(super) read: (u64, Option<Ending>),
    pub(super) since_ns: u64,
}

/// Files that may be copies.
pub(super) type Deferred = HashMap<FileId, Deferral>;

/// State of a file that may be a copy and is not read yet. Times are in ns, by the monotonic clock.
pub(super) struct Deferral {
    pub(super) stamp: Stamp,
    pub(super) path: PathBuf,
    pub(super) modified: Option<SystemTime>,
    /// The open file, so that it can be read even if it is deleted before it is known whether it is a copy; `None` if
    /// too many files are open.
    pub(super) file: Option<Open>,
    /// Time of the search that found the last change of the file.
    pub(super) changed_at_ns: u64,
    /// Time of the search that found the file first.
    pub(super) since_ns: u64,
}

impl Deferral {
    pub(super) fn new(found: &Found, now_ns: u64) -> Self {
        let Found { path, stamp, modified, .. } = found;
        Self {
            stamp: *stamp,
            path: path.clone(),
            modified: *modified,
            file: None,
            changed_at_ns: now_ns,
            since_ns: now_ns,
        }
    }
}
