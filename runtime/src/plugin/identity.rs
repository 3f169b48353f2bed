//! Whether a file is still the one that was read, without reading it again.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    time::{Duration, SystemTime},
};

/// The coarsest time stamps of file systems in use are that far apart, those of FAT. A file that was
/// written more recently might be written again, and its time of change stay the same.
const GRANULARITY: Duration = Duration::from_secs(2);

/// What the file system says of a file. Two that are equal are of the same file with the same
/// contents, provided that the first was [older](Self::is_older_than) when it was read than time
/// stamps are coarse: each writing changes one that programs cannot set.
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
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it is of the same file, whatever is in that.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether it is of the same file with the same contents, whatever names that has and who may
    /// read it.
    pub(super) fn has_contents_of(&self, other: &Self) -> bool {
        Self { changed: other.changed, ..*self } == *other
    }

    /// Whether the file that is read from `now` on was changed so long ago that a later change
    /// shows. False as well where the clock of the file system is ahead of `now`.
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
    fn a_file_is_the_same_until_it_is_written_to_or_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "as it was").unwrap();
        let first = at(&file);
        assert_eq!(at(&file), first);

        fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b" then").unwrap();
        let written = at(&file);
        assert!(written.is_of(&first) && !written.has_contents_of(&first));

        let other = folder.path().join("other");
        fs::write(&other, "as it was then").unwrap();
        fs::rename(&other, &file).unwrap();
        assert!(!at(&file).is_of(&written) && !at(&file).has_contents_of(&written));
    }

    #[test]
    fn another_name_for_a_file_changes_nothing_of_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        let first = at(&file);
        fs::hard_link(&file, folder.path().join("other")).unwrap();
        assert!(at(&file).is_of(&first) && at(&file).has_contents_of(&first));
    }

    #[test]
    fn a_file_that_was_written_just_now_is_not_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        let is_known = |after: Duration| at(&file).is_older_than(written + after);
        assert!(!is_known(Duration::ZERO));
        assert!(!is_known(GRANULARITY));
        assert!(is_known(GRANULARITY + Duration::from_secs(1)));
        // The file system's clock is ahead.
        assert!(!at(&file).is_older_than(written - Duration::from_secs(9)));
    }
}
