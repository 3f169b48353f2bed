//! Detects changes of a file without reading the file again.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    time::{Duration, SystemTime},
};

/// The coarsest resolution of time stamps among the file systems in use: that of FAT.
///
/// If a file was written less than this time ago, another write may not alter its time of change.
const GRANULARITY: Duration = Duration::from_secs(2);

/// Attributes of a file that show whether it has changed.
///
/// Each write changes the time of change, which programs cannot set. If two identities are equal, they therefore belong
/// to the same file with the same contents, as long as the first one was [older](Self::is_older_than) than the
/// resolution of time stamps when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    /// Size in bytes.
    size: u64,
    /// Time of the last change of the contents, in s and ns since the Unix epoch.
    modified: (i64, i64),
    /// Time of the last change of the contents or the attributes, in s and ns since the Unix epoch.
    changed: (i64, i64),
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns whether both identities belong to the same file, regardless of its contents.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Returns whether both identities belong to the same file with the same contents. The file may have other names
    /// and access rights.
    pub(super) fn has_contents_of(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }

    /// Returns whether the last change was so long before `now`, the time at which reading begins, that every later
    /// change is detected.
    ///
    /// Also returns `false` if the clock of the file system is ahead of `now`.
    pub(super) fn is_older_than(&self, now: SystemTime) -> bool {
        let Ok(now) = now.duration_since(SystemTime::UNIX_EPOCH) else { return false };
        let (s, ns) = self.changed;
        let (Ok(s), Ok(ns)) = (u64::try_from(s), u32::try_from(ns)) else { return false };
        now.checked_sub(Duration::new(s, ns)).is_some_and(|age| age > GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path, time::Duration};

    use super::{GRANULARITY, Identity};

    fn at(path: &Path) -> Identity {
        Identity::of(&fs::metadata(path).unwrap())
    }

    #[test]
    fn writing_or_replacing_changes_identity() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "as it was").unwrap();
        let first = at(&file);
        assert_eq!(at(&file), first);

        fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b" then").unwrap();
        let written = at(&file);
        assert!(written.is_same_file(&first) && !written.has_contents_of(&first));

        let other = folder.path().join("other");
        fs::write(&other, "as it was then").unwrap();
        fs::rename(&other, &file).unwrap();
        assert!(!at(&file).is_same_file(&written) && !at(&file).has_contents_of(&written));
    }

    #[test]
    fn hard_link_keeps_contents() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        let first = at(&file);
        fs::hard_link(&file, folder.path().join("other")).unwrap();
        assert!(at(&file).is_same_file(&first) && at(&file).has_contents_of(&first));
    }

    #[test]
    fn recently_written_file_is_not_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        let is_known = |after: Duration| at(&file).is_older_than(written + after);
        assert!(!is_known(Duration::ZERO));
        assert!(!is_known(GRANULARITY));
        assert!(is_known(GRANULARITY + Duration::from_secs(1)));
        // The clock of the file system is ahead.
        assert!(!at(&file).is_older_than(written - Duration::from_secs(9)));
    }
}
