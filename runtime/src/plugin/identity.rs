//! Whether a file is still the one that was read, without reading it again.

use std::{
    fs::{self, Metadata},
    path::Path,
    time::{Duration, SystemTime},
};

/// The coarsest time stamps of file systems in use are that far apart, those of FAT. A file that was
/// written more recently might be written again, and its time of change stay the same.
const GRANULARITY: Duration = Duration::from_secs(2);

/// What the file system says of a file. Two that are equal are of the same file with the same
/// contents, provided that the first is [settled](Self::settled): each writing changes a time stamp
/// that programs cannot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// In bytes.
    size: u64,
    /// Of the contents, in s and ns since the Unix epoch.
    modified: (i64, i64),
    /// Of the contents or of what is said about them, in s and ns since the Unix epoch.
    changed: (i64, i64),
}

impl Identity {
    /// None where the system has no such thing.
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Some(Self {
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            })
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            None
        }
    }

    /// As [`Identity::of`] for the file that the path leads to now; also none where there is none.
    pub(super) fn of_file_at(path: &Path) -> Option<Self> {
        Self::of(&fs::metadata(path).ok()?)
    }

    /// As [`Identity::of`] for a file that is read from `now` on; also none where it was changed so
    /// recently that a later change might not show.
    pub(super) fn settled(metadata: &Metadata, now: SystemTime) -> Option<Self> {
        Self::of(metadata).filter(|identity| identity.is_older_than(now))
    }

    /// False as well where the clock of the file system is ahead of `now`.
    fn is_older_than(&self, now: SystemTime) -> bool {
        let Ok(now) = now.duration_since(SystemTime::UNIX_EPOCH) else { return false };
        let (s, ns) = self.changed;
        let (Ok(s), Ok(ns)) = (u64::try_from(s), u32::try_from(ns)) else { return false };
        now.checked_sub(Duration::new(s, ns)).is_some_and(|age| age > GRANULARITY)
    }
}
