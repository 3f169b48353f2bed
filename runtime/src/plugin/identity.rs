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
    #[cfg_attr(unix, expect(clippy::unnecessary_wraps, reason = "other systems have none"))]
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

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs,
        io::Write,
        path::Path,
        time::{Duration, SystemTime},
    };

    use super::{GRANULARITY, Identity};

    /// As for a file that was read some time after it was written.
    fn settled(path: &Path) -> Option<Identity> {
        let later = SystemTime::now() + GRANULARITY + Duration::from_secs(1);
        Identity::settled(&fs::metadata(path).ok()?, later)
    }

    #[test]
    fn a_file_is_the_same_until_it_is_written_to_or_replaced_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "as it was").unwrap();
        let first = settled(&file);
        assert!(first.is_some());
        assert_eq!(Identity::of_file_at(&file), first);

        fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b" then").unwrap();
        assert_ne!(Identity::of_file_at(&file), first);

        let written = settled(&file);
        let other = folder.path().join("other");
        fs::write(&other, "as it was then").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(Identity::of_file_at(&file), written);

        fs::remove_file(&file).unwrap();
        assert_eq!(Identity::of_file_at(&file), None);
    }

    #[test]
    fn a_file_that_was_written_just_now_is_not_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        let about = fs::metadata(&file).unwrap();
        let written = about.modified().unwrap();
        let read = |after: Duration| Identity::settled(&about, written + after);
        assert_eq!(read(Duration::ZERO), None);
        assert_eq!(read(GRANULARITY), None);
        assert!(read(GRANULARITY + Duration::from_secs(1)).is_some());
        // The file system's clock is ahead.
        assert_eq!(Identity::settled(&about, written - Duration::from_secs(9)), None);
    }
}
